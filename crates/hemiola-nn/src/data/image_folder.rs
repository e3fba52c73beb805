//! Folders of JPEG and PNG images, with a folder per class.
//!
//! A folder has the folders of its classes, or a folder `train` and one named `test`, `val`, `valid`
//! or `validation` with folders of classes each. Classes are in the order of their names, and so are
//! the files of a class, with those of folders within it.
//!
//! **Invariant:** data and their order depend on the names of the files only, not on the order in
//! which the file system lists them.

use super::bytes::{bad_file, read as read_bytes};
use super::image_file::{FileUse, ImageCollector};
use super::images::ImageDataset;
use hemiola_array::Result;
use hemiola_core::Seed;
use hemiola_core::rng::Permutation;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Names of the folder of the validation set, beside `train`.
const VALIDATION: [&str; 4] = ["test", "val", "valid", "validation"];
/// Number of classes that labels can tell apart.
const MAX_CLASSES: usize = 256;
/// Folders within each other.
const MAX_DEPTH: usize = 8;

/// Options for reading image files.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ImageReadOptions {
    /// Rows and columns to which images are scaled and cut; `None` if all have one size. Default: none.
    pub size: Option<[usize; 2]>,
    /// Share of the images that become the validation set, where the folder has none. Default: 0.2.
    pub validation: f64,
    /// Random seed of that choice. Default: 1.
    pub seed: u64,
}

impl Default for ImageReadOptions {
    fn default() -> Self {
        Self { size: None, validation: 0.2, seed: 1 }
    }
}

/// Returns whether a folder has folders of images.
pub(super) fn is_image_folder(folder: &Path) -> bool {
    let Ok(classes) = folders(folder) else { return false };
    let has_images = |class: &(String, PathBuf)| files(&class.1, 0).is_ok_and(|found| !found.is_empty());
    classes.iter().any(has_images)
}

/// Reads training and validation set.
pub(super) fn read(folder: &Path, options: &ImageReadOptions) -> Result<[ImageDataset; 2]> {
    let Some(validation) = validation_folder(folder) else {
        return divided(&ClassFolders::list(folder)?, options);
    };
    let train = ClassFolders::list(&folder.join("train"))?;
    let valid = ClassFolders::list(&validation)?.with_classes(&train.classes, &validation)?;
    let (first, first_labels) = train.collect(options.size, options.size.is_some(), |_| true)?;
    // The validation set has the size of the training set.
    let (second, second_labels) = valid.collect(first.size(), options.size.is_some(), |_| true)?;
    let channels = if first.has_color() || second.has_color() { 3 } else { 1 };
    let train_set = first.dataset(channels, first_labels, &train.classes);
    let valid_set = second.dataset(channels, second_labels, &train.classes).normalized_as(&train_set);
    Ok([train_set, valid_set])
}

/// Reads images for a net that takes `shape` and knows `classes`: the validation set of a folder, a
/// folder with folders of classes, or one with images. Returns them, and whether they have labels.
pub(super) fn read_for(folder: &Path, shape: [usize; 3], classes: &[String]) -> Result<(ImageDataset, bool)> {
    let [channels, rows, columns] = shape;
    let size = Some([rows, columns]);
    let folder = validation_folder(folder).unwrap_or_else(|| folder.to_owned());
    if is_image_folder(&folder) {
        let listed = ClassFolders::list(&folder)?.with_classes(classes, &folder)?;
        let (images, labels) = listed.collect(size, true, |_| true)?;
        return Ok((images.dataset(channels, labels, classes), true));
    }
    let found = files(&folder, 0)?;
    if found.is_empty() {
        return Err(bad_file(&folder, "it has no JPEG or PNG images"));
    }
    let mut images = ImageCollector::new(size);
    for file in &found {
        images.add(file, &read_bytes(file)?, true)?;
    }
    Ok((images.dataset(channels, vec![0; found.len()], classes), false))
}

/// Returns the folder of the validation set beside a folder `train`.
fn validation_folder(folder: &Path) -> Option<PathBuf> {
    if !folder.join("train").is_dir() {
        return None;
    }
    VALIDATION.iter().map(|name| folder.join(name)).find(|path| path.is_dir())
}

/// Divides the images of one folder at random.
fn divided(all: &ClassFolders, options: &ImageReadOptions) -> Result<[ImageDataset; 2]> {
    let count = all.files.len();
    let held = (count as f64 * options.validation.clamp(0.0, 1.0)).round() as u64;
    let order = Permutation::new(count as u64, Seed(options.seed));
    let is_held = |index: usize| order.apply(index as u64) < held;
    let resizes = options.size.is_some();
    let (train, train_labels) = all.collect(options.size, resizes, |index| !is_held(index))?;
    let (valid, valid_labels) = all.collect(train.size(), resizes, is_held)?;
    let channels = if train.has_color() || valid.has_color() { 3 } else { 1 };
    let train = train.dataset(channels, train_labels, &all.classes);
    let valid = valid.dataset(channels, valid_labels, &all.classes).normalized_as(&train);
    Ok([train, valid])
}

/// Files of images with the index of their class.
#[derive(Debug)]
struct ClassFolders {
    classes: Vec<String>,
    files: Vec<(u8, PathBuf)>,
}

impl ClassFolders {
    fn list(folder: &Path) -> Result<Self> {
        let found = folders(folder)?;
        if found.len() > MAX_CLASSES {
            let problem = format!("it has {} folders; images have at most {MAX_CLASSES} classes", found.len());
            return Err(bad_file(folder, problem));
        }
        let (mut classes, mut all) = (Vec::new(), Vec::new());
        for (label, (class, path)) in found.into_iter().enumerate() {
            let images = files(&path, 0)?;
            if images.is_empty() {
                let problem = "it has no JPEG or PNG images, and each folder is a class; add some, or remove it";
                return Err(bad_file(&path, problem));
            }
            classes.push(class);
            all.extend(images.into_iter().map(|file| (label as u8, file)));
        }
        if classes.is_empty() {
            return Err(bad_file(folder, "it has no folders; expected a folder of images for each class"));
        }
        Ok(Self { classes, files: all })
    }

    /// Numbers the classes as `known` has them. `folder` is named in errors.
    fn with_classes(self, known: &[String], folder: &Path) -> Result<Self> {
        let mut labels = Vec::new();
        for class in &self.classes {
            let Some(label) = known.iter().position(|name| name == class) else {
                let problem =
                    format!("it has a class `{class}` that the training set does not have: {}", known.join(", "));
                return Err(bad_file(folder, problem));
            };
            labels.push(label as u8);
        }
        let files = self.files.into_iter().map(|(label, file)| (labels[usize::from(label)], file)).collect();
        Ok(Self { classes: known.to_vec(), files })
    }

    /// Reads the images whose index is wanted. Returns them with their labels.
    fn collect(
        &self,
        size: Option<[usize; 2]>,
        resizes: bool,
        is_wanted: impl Fn(usize) -> bool,
    ) -> Result<(ImageCollector, Vec<u8>)> {
        let (mut images, mut labels) = (ImageCollector::new(size), Vec::new());
        for (_, (label, file)) in self.files.iter().enumerate().filter(|(index, _)| is_wanted(*index)) {
            images.add(file, &read_bytes(file)?, resizes)?;
            labels.push(*label);
        }
        Ok((images, labels))
    }
}

/// Returns the folders within a folder by name, in order.
fn folders(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    let found = entries(folder)?.into_iter().filter(|path| path.is_dir());
    Ok(found.map(|path| (path.file_name().unwrap_or_default().to_string_lossy().into_owned(), path)).collect())
}

/// Returns the images below a folder, in order of their paths.
fn files(folder: &Path, depth: usize) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in entries(folder)? {
        if path.is_dir() {
            if depth < MAX_DEPTH {
                found.extend(files(&path, depth + 1)?);
            }
            continue;
        }
        match FileUse::of(&path) {
            FileUse::Image => found.push(path),
            FileUse::OtherImage => {
                return Err(bad_file(&path, "only JPEG and PNG images are read; convert it, or remove it"));
            }
            FileUse::Other => {}
        }
    }
    Ok(found)
}

/// Returns the entries of a folder in order of their names, without hidden ones.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed =
        |error: &std::io::Error| bad_file(folder, format!("its files cannot be listed: {error}; check the path"));
    let mut names: Vec<OsString> = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|error| failed(&error))? {
        let name = entry.map_err(|error| failed(&error))?.file_name();
        if !name.to_string_lossy().starts_with('.') {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names.into_iter().map(|name| folder.join(name)).collect())
}

#[cfg(test)]
mod tests {
    use super::super::Dataset as _;
    use super::super::image_file::tests::{grey_png, png};
    use super::*;
    use std::fs;

    fn write(folder: &Path, name: &str, bytes: &[u8]) {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn tone(tone: u8) -> Vec<u8> {
        grey_png(3, 2, move |_, _| tone)
    }

    #[test]
    fn folders_are_classes_in_order() {
        let lab = tempfile::tempdir().unwrap();
        for (name, bytes) in [
            ("train/dog/b.png", tone(4)),
            ("train/dog/a.PNG", tone(3)),
            ("train/cat/deep/c.png", tone(2)),
            ("train/cat/b.png", tone(1)),
            ("train/cat/notes.txt", b"text".to_vec()),
            ("train/.cache/x.png", b"hidden".to_vec()),
            ("val/dog/x.png", tone(9)),
        ] {
            write(lab.path(), name, &bytes);
        }
        let [train, valid] = ImageDataset::read(lab.path()).unwrap();
        assert_eq!(train.class_names(), ["cat", "dog"]);
        assert_eq!((train.labels(), train.shape()), (&[0, 0, 1, 1][..], [1, 3, 2]));
        assert_eq!(train.pixels().iter().step_by(6).copied().collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert_eq!((valid.labels(), valid.class_names()), (&[1][..], train.class_names()));
        assert!(valid.normalization().eq(train.normalization()));
    }

    #[test]
    fn one_folder_is_divided_by_the_seed() {
        let lab = tempfile::tempdir().unwrap();
        (0..40).for_each(|number: u8| write(lab.path(), &format!("c{}/{number:02}.png", number % 2), &tone(number)));
        let read = |seed, validation| {
            let options = ImageReadOptions { validation, seed, ..ImageReadOptions::default() };
            ImageDataset::read_with(lab.path(), &options).unwrap()
        };
        let [train, valid] = read(1, 0.25);
        assert_eq!((train.len(), valid.len()), (30, 10));
        let tones = |images: &ImageDataset| images.pixels().iter().step_by(6).copied().collect::<Vec<_>>();
        let mut all = [tones(&train), tones(&valid)].concat();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..40));
        assert!(tones(&train).iter().zip(train.labels()).all(|(tone, label)| tone % 2 == *label));
        assert_eq!(tones(&read(1, 0.25)[1]), tones(&valid));
        assert_ne!(tones(&read(2, 0.25)[1]), tones(&valid));
        assert!(read(1, 0.0)[1].is_empty());
    }

    #[test]
    fn images_for_a_net_have_its_size_channels_and_classes() {
        let lab = tempfile::tempdir().unwrap();
        write(lab.path(), "named/b/x.png", &png(8, 8, |_, _| [9, 9, 9]));
        write(lab.path(), "plain/x.png", &png(5, 9, |_, _| [9, 9, 9]));
        let classes = ["a", "b"].map(str::to_owned);
        let read = |name: &str| ImageDataset::read_for(&lab.path().join(name), [1, 4, 4], &classes);
        let (images, has_labels) = read("named").unwrap();
        assert_eq!((images.shape(), images.labels(), has_labels), ([1, 4, 4], &[1][..], true));
        let (images, has_labels) = read("plain").unwrap();
        assert_eq!((images.shape(), images.len(), has_labels), ([1, 4, 4], 1, false));
        let (images, has_labels) = read("plain/x.png").unwrap();
        assert_eq!((images.shape(), images.len(), has_labels), ([1, 4, 4], 1, false));
        write(lab.path(), "named/other/x.png", &tone(1));
        let told = read("named").unwrap_err().to_string();
        assert!(told.contains("a class `other`") && told.contains("a, b"), "{told}");
    }

    #[test]
    fn folders_that_are_no_classes_are_refused_by_name() {
        let lab = tempfile::tempdir().unwrap();
        write(lab.path(), "a/x.png", &tone(1));
        fs::create_dir(lab.path().join("empty")).unwrap();
        let told = ImageDataset::read(lab.path()).unwrap_err().to_string();
        assert!(told.contains("empty") && told.contains("no JPEG or PNG"), "{told}");
        write(lab.path(), "empty/x.webp", b"RIFF");
        let told = ImageDataset::read(lab.path()).unwrap_err().to_string();
        assert!(told.contains("x.webp") && told.contains("convert it"), "{told}");
        write(lab.path(), "empty/x.webp", b"");
        fs::rename(lab.path().join("empty/x.webp"), lab.path().join("empty/x.jpg")).unwrap();
        let told = ImageDataset::read(lab.path()).unwrap_err().to_string();
        assert!(told.contains("x.jpg") && told.contains("cannot be decoded"), "{told}");
    }
}
