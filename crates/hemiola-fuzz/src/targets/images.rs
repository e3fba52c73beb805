//! Data sets of nets: IDX and CIFAR images, text.

use super::{FuzzTarget, PreparedTarget};
use hemiola::nn::data::{TextDataset, cifar, idx};

pub(super) const TARGETS: &[FuzzTarget] = &[
    FuzzTarget { name: "idx", about: "images in the format of MNIST", prepare: idx_images },
    FuzzTarget { name: "cifar", about: "images in the format of CIFAR-10", prepare: cifar_images },
    FuzzTarget { name: "text", about: "text for language models", prepare: text },
];

/// Number of labels in the file beside the images.
const IMAGES: usize = 3;

fn idx_images() -> anyhow::Result<PreparedTarget> {
    let file = |extents: &[u32], bytes: &[u8]| {
        let mut file = vec![0, 0, 8, extents.len() as u8];
        file.extend(extents.iter().flat_map(|extent| extent.to_be_bytes()));
        file.extend(bytes);
        file
    };
    let folder = tempfile::tempdir()?;
    let [images, labels, ..] = idx::paths(folder.path());
    std::fs::write(&labels, file(&[IMAGES as u32], &[1, 0, 2]))?;
    let seeds =
        vec![file(&[IMAGES as u32, 2, 2], &[7; IMAGES * 4]), file(&[IMAGES as u32, 28, 28], &[9; IMAGES * 784])];
    Ok(PreparedTarget::new(seeds, move |input| {
        let _folder = &folder;
        std::fs::write(&images, input).expect("the temporary folder is writable");
        idx::read_pair(&images, &labels).is_ok()
    }))
}

fn cifar_images() -> anyhow::Result<PreparedTarget> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("data_batch_1.bin");
    let seeds = vec![[vec![3], vec![100; 3072], vec![9], vec![50; 3072]].concat()];
    Ok(PreparedTarget::new(seeds, move |input| {
        let _folder = &folder;
        std::fs::write(&path, input).expect("the temporary folder is writable");
        cifar::read_files(std::slice::from_ref(&path)).is_ok()
    }))
}

fn text() -> anyhow::Result<PreparedTarget> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("text.txt");
    let seeds = vec![
        b"the ship left the harbour\na storm hit the ship\n".to_vec(),
        "naïve café\n日本 語\n".as_bytes().to_vec(),
    ];
    Ok(PreparedTarget::new(seeds, move |input| {
        let _folder = &folder;
        std::fs::write(&path, input).expect("the temporary folder is writable");
        TextDataset::read(path.to_str().expect("a temporary path is text"), 3).is_ok()
    }))
}
