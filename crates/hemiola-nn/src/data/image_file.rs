//! Decoding of JPEG and PNG files, and their reduction to a common size.
//!
//! **Decision:** the decoders are used directly. The crate `image` would bring colour management and
//! features of numeric crates, with which all of Burn is built again.
//!
//! **Invariant:** an image that cannot be decoded is an error that names its file; none is left out.

use super::bytes::bad_file;
use super::images::ImageDataset;
use hemiola_array::Result;
use png::{ColorType, Transformations};
use std::io::Cursor;
use std::path::Path;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

/// Maximum rows and columns of a file: a small file must not fill the memory.
const MAX_EXTENT: usize = 16_384;
/// Maximum bytes of a decoded file.
const MAX_BYTES: usize = 1 << 29;

/// Endings of the files that are read.
const ENDINGS: [&str; 3] = ["jpg", "jpeg", "png"];
/// Endings of images of other formats.
const OTHER_ENDINGS: [&str; 11] = ["avif", "bmp", "gif", "heic", "ico", "pbm", "pgm", "ppm", "tif", "tiff", "webp"];

/// Use of a file of a folder of images, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileUse {
    Image,
    /// Image of a format that is not read.
    OtherImage,
    /// No image.
    Other,
}

impl FileUse {
    pub(super) fn of(path: &Path) -> Self {
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
        match ending {
            ending if ENDINGS.contains(&&*ending) => Self::Image,
            ending if OTHER_ENDINGS.contains(&&*ending) => Self::OtherImage,
            _ => Self::Other,
        }
    }
}

/// Images of equal size in the order of their addition.
#[derive(Debug, Default)]
pub(super) struct ImageCollector {
    /// Rows and columns of all images; `None` for those of the first.
    size: Option<[usize; 2]>,
    /// Three channels of each image, in row-major order.
    pixels: Vec<u8>,
    images: usize,
    has_color: bool,
}

impl ImageCollector {
    /// Creates a collector of images of `size`, rows and columns, or of that of the first image.
    pub(super) fn new(size: Option<[usize; 2]>) -> Self {
        Self { size, ..Self::default() }
    }

    /// Adds the image of `bytes`. With a given size, its longer side is cut at both ends and the rest
    /// is scaled; `resizes` is false if images of another size are an error. `name` is the file.
    pub(super) fn add(&mut self, name: &Path, bytes: &[u8], resizes: bool) -> Result<()> {
        let image = decode(bytes).map_err(|problem| {
            bad_file(name, format!("it cannot be decoded: {problem}; replace it, or remove it from the data"))
        })?;
        let (found, has_color) = (image.size, image.has_color);
        let wanted = *self.size.get_or_insert(found);
        let image = match (found == wanted, resizes) {
            (true, _) => image,
            (false, true) => fitted(&image, wanted),
            (false, false) => {
                let [[rows, columns], [wanted_rows, wanted_columns]] = [found, wanted];
                let problem = format!(
                    "it has {rows} by {columns} pixels, and images before it have {wanted_rows} by {wanted_columns}; scale all images to one size (`--image-size`)"
                );
                return Err(bad_file(name, problem));
            }
        };
        self.has_color |= has_color;
        self.images += 1;
        self.pixels.extend((0..3).flat_map(|channel| image.rgb[channel..].iter().step_by(3)));
        Ok(())
    }

    /// Rows and columns of the images.
    pub(super) fn size(&self) -> Option<[usize; 2]> {
        self.size
    }

    /// Returns true if an image is not grey.
    pub(super) fn has_color(&self) -> bool {
        self.has_color
    }

    /// Returns the images with these labels and class names, in one channel or in three.
    pub(super) fn dataset(self, channels: usize, labels: Vec<u8>, classes: &[String]) -> ImageDataset {
        let [rows, columns] = self.size.unwrap_or_default();
        let mut pixels = self.pixels;
        if channels == 1 {
            let size = rows * columns;
            for image in 0..self.images {
                pixels.copy_within(3 * image * size..(3 * image + 1) * size, image * size);
            }
            pixels.truncate(self.images * size);
        }
        ImageDataset::new([channels, rows, columns], classes.len(), pixels, labels).with_class_names(classes.to_vec())
    }
}

/// Decoded image.
#[derive(Clone, Debug)]
struct DecodedImage {
    /// Rows and columns.
    size: [usize; 2],
    /// Three channels of each pixel, in row-major order.
    rgb: Vec<u8>,
    has_color: bool,
}

/// Decodes a JPEG or PNG file.
fn decode(bytes: &[u8]) -> Result<DecodedImage, String> {
    if bytes.starts_with(&[0xff, 0xd8]) {
        decode_jpeg(bytes)
    } else if bytes.starts_with(b"\x89PNG") {
        decode_png(bytes)
    } else {
        Err("it is neither a JPEG nor a PNG image".to_owned())
    }
}

fn decode_jpeg(bytes: &[u8]) -> Result<DecodedImage, String> {
    let options = DecoderOptions::default()
        .jpeg_set_out_colorspace(ColorSpace::RGB)
        .set_max_width(MAX_EXTENT)
        .set_max_height(MAX_EXTENT)
        // A file that is cut off would be filled with grey.
        .set_strict_mode(true);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(|error| error.to_string())?;
    let info = decoder.info().ok_or("it has no size")?;
    let size = [usize::from(info.height), usize::from(info.width)];
    if 3 * size[0] * size[1] > MAX_BYTES {
        return Err("it is too large".to_owned());
    }
    let rgb = decoder.decode().map_err(|error| error.to_string())?;
    if rgb.len() != 3 * size[0] * size[1] {
        return Err("its colours are neither grey nor RGB".to_owned());
    }
    Ok(DecodedImage { size, rgb, has_color: info.components > 1 })
}

fn decode_png(bytes: &[u8]) -> Result<DecodedImage, String> {
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), png::Limits { bytes: MAX_BYTES });
    decoder.set_transformations(Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().map_err(|error| error.to_string())?;
    let count = reader.output_buffer_size().filter(|count| *count <= MAX_BYTES).ok_or("it is too large")?;
    let mut pixels = vec![0; count];
    let info = reader.next_frame(&mut pixels).map_err(|error| error.to_string())?;
    pixels.truncate(info.buffer_size());
    let rgb = match info.color_type {
        ColorType::Grayscale => pixels.iter().flat_map(|tone| [*tone; 3]).collect(),
        ColorType::GrayscaleAlpha => pixels.chunks_exact(2).flat_map(|pixel| [pixel[0]; 3]).collect(),
        ColorType::Rgba => pixels.chunks_exact(4).flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect(),
        _ => pixels,
    };
    let has_color = !matches!(info.color_type, ColorType::Grayscale | ColorType::GrayscaleAlpha);
    Ok(DecodedImage { size: [info.height as usize, info.width as usize], rgb, has_color })
}

/// Scales an image so that it covers the wanted rows and columns, and cuts its centre.
fn fitted(image: &DecodedImage, wanted: [usize; 2]) -> DecodedImage {
    let factor = (0..2).map(|axis| wanted[axis] as f64 / image.size[axis] as f64).fold(0.0, f64::max);
    let taps = [0, 1].map(|axis| {
        let scaled = ((image.size[axis] as f64 * factor).round() as usize).max(wanted[axis]);
        let before = (scaled - wanted[axis]) / 2;
        (before..before + wanted[axis]).map(|place| taps(place, scaled, image.size[axis])).collect::<Vec<_>>()
    });
    let columns = image.size[1];
    // Columns first, in single precision.
    let mut narrow = Vec::with_capacity(image.size[0] * wanted[1] * 3);
    for row in image.rgb.chunks_exact(3 * columns) {
        for (first, weights) in &taps[1] {
            let sum = |channel: usize| {
                let pixels = row[3 * first + channel..].iter().step_by(3);
                pixels.zip(weights).map(|(byte, weight)| f32::from(*byte) * weight).sum::<f32>()
            };
            narrow.extend([sum(0), sum(1), sum(2)]);
        }
    }
    let width = 3 * wanted[1];
    let mut rgb = Vec::with_capacity(wanted[0] * width);
    for (first, weights) in &taps[0] {
        rgb.extend((0..width).map(|at| {
            let pixels = narrow[first * width + at..].iter().step_by(width);
            pixels.zip(weights).map(|(value, weight)| value * weight).sum::<f32>().round() as u8
        }));
    }
    DecodedImage { size: wanted, rgb, has_color: image.has_color }
}

/// First pixel and weights of a place of an axis that is scaled from `extent` to `scaled` pixels:
/// linear interpolation, and the mean of all pixels that become one when an image shrinks.
fn taps(place: usize, scaled: usize, extent: usize) -> (usize, Vec<f32>) {
    let ratio = extent as f64 / scaled as f64;
    let (center, radius) = ((place as f64 + 0.5) * ratio, ratio.max(1.0));
    let first = ((center - radius).floor().max(0.0) as usize).min(extent - 1);
    let last = ((center + radius).ceil() as usize).clamp(first + 1, extent);
    let weight = |pixel: usize| (1.0 - ((pixel as f64 + 0.5 - center) / radius).abs()).max(0.0);
    let mut weights: Vec<f64> = (first..last).map(weight).collect();
    let sum: f64 = weights.iter().sum();
    if sum <= 0.0 {
        weights[0] = 1.0;
    }
    let sum = if sum > 0.0 { sum } else { 1.0 };
    (first, weights.into_iter().map(|weight| (weight / sum) as f32).collect())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn encoded(rows: u32, columns: u32, color: ColorType, pixels: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, columns, rows);
        encoder.set_color(color);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.write_header().unwrap().write_image_data(pixels).unwrap();
        bytes
    }

    /// Encodes an image of which each pixel is `color(row, column)`.
    pub(crate) fn png(rows: u32, columns: u32, color: impl Fn(u32, u32) -> [u8; 3]) -> Vec<u8> {
        let color = &color;
        let pixels: Vec<u8> =
            (0..rows).flat_map(|row| (0..columns).flat_map(move |column| color(row, column))).collect();
        encoded(rows, columns, ColorType::Rgb, &pixels)
    }

    /// Encodes a grey image.
    pub(crate) fn grey_png(rows: u32, columns: u32, tone: impl Fn(u32, u32) -> u8) -> Vec<u8> {
        let tone = &tone;
        let pixels: Vec<u8> = (0..rows).flat_map(|row| (0..columns).map(move |column| tone(row, column))).collect();
        encoded(rows, columns, ColorType::Grayscale, &pixels)
    }

    fn collected(files: &[Vec<u8>], size: Option<[usize; 2]>) -> Result<ImageCollector> {
        let mut collector = ImageCollector::new(size);
        let added = files
            .iter()
            .enumerate()
            .try_for_each(|(number, bytes)| collector.add(format!("{number}.png").as_ref(), bytes, size.is_some()));
        added.map(|()| collector)
    }

    #[test]
    fn channels_are_separated() {
        let images = collected(&[png(1, 2, |_, column| [column as u8, 7, 9])], None).unwrap();
        assert!(images.has_color());
        let images = images.dataset(3, vec![0], &["a".to_owned()]);
        assert_eq!((images.shape(), images.pixels()), ([3, 1, 2], &[0, 1, 7, 7, 9, 9][..]));
        let grey = |shift: u8| grey_png(2, 1, move |row, _| row as u8 + shift);
        let images = collected(&[grey(10), grey(20)], None).unwrap();
        assert!(!images.has_color());
        let images = images.dataset(1, vec![0, 0], &["a".to_owned()]);
        assert_eq!((images.shape(), images.pixels()), ([1, 2, 1], &[10, 11, 20, 21][..]));
    }

    #[test]
    fn images_are_scaled_and_cut_at_both_ends() {
        // The left and the right quarter of a wide image are cut off.
        let bytes = png(4, 8, |_, column| if (2..6).contains(&column) { [100; 3] } else { [0; 3] });
        let images = collected(&[bytes], Some([2, 2])).unwrap();
        let images = images.dataset(3, vec![0], &["a".to_owned()]);
        assert_eq!(images.shape(), [3, 2, 2]);
        assert!(images.pixels().iter().all(|byte| *byte > 80), "{:?}", images.pixels());
    }

    #[test]
    fn a_small_file_of_a_huge_image_is_refused() {
        // Headers of a JPEG of 16,000 by 16,000 pixels: size, and begin of the only scan.
        let mut bytes = vec![0xff, 0xd8, 0xff, 0xc0, 0, 17, 8];
        bytes.extend([16_000_u16.to_be_bytes(), 16_000_u16.to_be_bytes()].concat());
        bytes.extend([3, 1, 0x11, 0, 2, 0x11, 0, 3, 0x11, 0]);
        bytes.extend([0xff, 0xda, 0, 12, 3, 1, 0, 2, 0, 3, 0, 0, 63, 0]);
        let told = collected(&[bytes], None).unwrap_err().to_string();
        assert!(told.contains("0.png") && told.contains("it is too large"), "{told}");
    }

    #[test]
    fn damaged_and_unequal_images_are_refused_by_name() {
        let whole = png(8, 8, |row, column| [(row * 31 + column) as u8; 3]);
        let cut = whole[..whole.len() / 2].to_vec();
        let told = collected(&[whole.clone(), cut], None).unwrap_err().to_string();
        assert!(told.contains("1.png") && told.contains("cannot be decoded"), "{told}");
        let told = collected(&[b"text".to_vec()], None).unwrap_err().to_string();
        assert!(told.contains("0.png") && told.contains("neither a JPEG nor a PNG"), "{told}");
        let told = collected(&[whole, png(8, 9, |_, _| [0; 3])], None).unwrap_err().to_string();
        assert!(told.contains("1.png") && told.contains("8 by 9 pixels") && told.contains("--image-size"), "{told}");
    }
}
