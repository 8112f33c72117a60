//! Folders of class folders.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use millrace_loader::folder::{Folder, FolderOptions};
use millrace_loader::images::ImageOptions;
use millrace_loader::{BadSamples, Loader, LoaderConfig, LoaderKind, SamplePlace, Samples};
use millrace_runtime::Runtime;

use crate::{bytes, decode, path};

/// Puts copies of files into a folder: (name in it, file of the tests).
fn fill(root: &Path, files: &[(&str, &str)]) {
    for (name, file) in files {
        let to = root.join(name);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(path(file), to).unwrap();
    }
}

fn options() -> FolderOptions {
    FolderOptions {
        images: ImageOptions { size: Some([8, 12]), ..ImageOptions::default() },
        ..FolderOptions::default()
    }
}

fn error(root: &Path, options: &FolderOptions) -> String {
    let message = Folder::open(root, options).unwrap_err().to_string();
    assert_eq!(message.lines().count(), 1, "{message}");
    message.replace(root.to_str().unwrap(), "DIR")
}

#[test]
fn the_content_decides_and_hidden_names_are_listed() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    fill(
        root,
        &[
            ("b/2.jpg", "rgb.webp"),
            ("b/1.JPG", "rgb.bmp"),
            ("b/deep/er/3", "rgba.png"),
            ("b/.4.png", "rgb.png"),
            ("b/Thumbs.db", "rgb.png"),
            ("a c/x.png", "baseline.jpg"),
            (".ipynb_checkpoints/x.png", "rgb.png"),
            ("notes.png", "rgb.png"),
        ],
    );
    let set = Folder::open(root, &options()).unwrap();
    assert_eq!(set.class_names(), ["a c", "b"]);
    let names: Vec<_> = (0..set.len()).map(|i| set.file(i).strip_prefix(root).unwrap()).collect();
    assert_eq!(names, ["a c/x.png", "b/1.JPG", "b/2.jpg", "b/deep/er/3"].map(Path::new));
    assert_eq!(set.labels(), [0, 1, 1, 1]);
    let mut skipped: Vec<_> =
        set.skipped().iter().map(|path| path.strip_prefix(root).unwrap()).collect();
    skipped.sort();
    let hidden = [".ipynb_checkpoints", "b/.4.png", "b/Thumbs.db", "notes.png"];
    assert_eq!(skipped, hidden.map(Path::new));

    let (mut values, mut label) = (vec![0.0; set.sample_len()], [9]);
    for (index, file) in ["baseline.jpg", "rgb.bmp", "rgb.webp", "rgba.png"].iter().enumerate() {
        let place = SamplePlace { epoch: 0, index };
        set.decode(place, &mut values, &mut label).unwrap();
        assert_eq!(values, decode(&bytes(file), [8, 12], &options().images).unwrap());
        assert_eq!(label[0], set.labels()[index]);
    }
}

#[test]
fn the_first_image_gives_the_size() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path(), &[("a/1", "orientation-6.jpg"), ("a/2", "rgb.png")]);
    let set = Folder::open(dir.path(), &FolderOptions::default()).unwrap();
    assert_eq!(set.shape(), [3, 24, 16]);
    fs::write(dir.path().join("a/0"), "text").unwrap();
    let told = error(dir.path(), &FolderOptions::default());
    assert_eq!(told, r#""DIR/a/0": not an image: it starts with "text""#);
}

#[test]
fn folders_that_are_no_data_set() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    assert!(error(root, &options()).ends_with("for each class; found nothing"));
    fill(root, &[("a/1", "rgb.png"), ("x.png", "rgb.png")]);
    fs::create_dir(root.join("empty")).unwrap();
    assert_eq!(
        error(root, &options()),
        r#""DIR": no image of the class "empty"; allow empty classes, or remove it"#
    );
    let allowed = FolderOptions { allow_empty_classes: true, ..options() };
    let set = Folder::open(root, &allowed).unwrap();
    assert_eq!((set.classes(), set.len()), (2, 1));

    std::os::unix::fs::symlink(root.join("a"), root.join("a/again")).unwrap();
    let told = error(root, &allowed);
    assert!(told.contains("more than 16 folders deep"), "{told}");

    let many = tempfile::tempdir().unwrap();
    for class in 0..257 {
        fs::create_dir(many.path().join(class.to_string())).unwrap();
    }
    let told = error(many.path(), &allowed);
    assert!(told.ends_with("has 257 class folders, at most 256 can be told apart"), "{told}");
}

#[test]
fn names_need_not_be_text() {
    let dir = tempfile::tempdir().unwrap();
    let class = dir.path().join(OsStr::from_bytes(b"caf\xe9"));
    fs::create_dir(&class).unwrap();
    fs::copy(path("rgb.png"), class.join(OsStr::from_bytes(b"a\xf1b.png"))).unwrap();
    fs::write(class.join(OsStr::from_bytes(b"bad\xf1\n")), "no").unwrap();
    fill(dir.path(), &[("😀 smile/1.png", "rgb.png")]);
    let set = Folder::open(dir.path(), &options()).unwrap();
    assert_eq!(set.class_names(), [r"caf\xE9", "😀 smile"]);
    let (mut values, mut label) = (vec![0.0; set.sample_len()], [9]);
    set.decode(SamplePlace { epoch: 0, index: 0 }, &mut values, &mut label).unwrap();
    let error = set.decode(SamplePlace { epoch: 0, index: 1 }, &mut values, &mut label);
    let told = error.unwrap_err().to_string();
    assert!(told.contains(r"caf\xE9/bad\xF1\n"), "{told}");
}

#[test]
fn parts_share_their_classes() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    assert!(!Folder::has_parts(root));
    fill(
        root,
        &[("train/b/1", "rgb.png"), ("train/c/1", "rgb.png"), ("val/c/1", "orientation-6.jpg")],
    );
    assert!(Folder::has_parts(root));
    let told = Folder::open_parts(root, &FolderOptions::default()).unwrap_err().to_string();
    assert!(told.contains(r#"no image of the class "b""#), "{told}");
    let allowed = FolderOptions { allow_empty_classes: true, ..FolderOptions::default() };
    let parts = Folder::open_parts(root, &allowed).unwrap();
    let test = parts.test.unwrap();
    assert_eq!((test.labels(), test.classes()), (&[1][..], 2));
    assert_eq!((parts.train.shape(), test.shape()), ([3, 16, 24], [3, 16, 24]));
    fill(root, &[("val/a/1", "rgb.png")]);
    let told = Folder::open_parts(root, &allowed).unwrap_err().to_string();
    assert!(told.contains(r#""a" is a class here, but not in"#), "{told}");
}

/// Each kind of loader gives out what decoding one by one does, with a stand-in for the text.
#[test]
fn loaders_take_folders() {
    let dir = tempfile::tempdir().unwrap();
    let files = ["baseline.jpg", "rgb.png", "rgba.webp", "grey.jpg", "rgb.tiff", "two-frames.gif"];
    for (i, file) in files.iter().enumerate() {
        fill(dir.path(), &[(&format!("class {}/{i}", i % 2), file)]);
    }
    fs::write(dir.path().join("class 0/5"), "text").unwrap();
    let set = Arc::new(Folder::open(dir.path(), &options()).unwrap());
    let len = set.sample_len();
    let mut wanted = Vec::new();
    // Sample 3 is the text; 4 follows it.
    for index in [0, 1, 2, 4, 4, 5, 6] {
        let (mut values, mut label) = (vec![0.0; len], [9]);
        set.decode(SamplePlace { epoch: 0, index }, &mut values, &mut label).unwrap();
        wanted.push((values, label[0]));
    }
    let rt = Runtime::builder().workers(2).build().unwrap();
    for kind in LoaderKind::ALL {
        let config = LoaderConfig {
            batch_size: 3,
            shards: 2,
            epochs: 2,
            bad_samples: BadSamples::Substitute { limit: 1 },
            ..LoaderConfig::default()
        };
        let mut loader = Loader::over(&rt, kind, set.clone(), config).unwrap();
        let mut found = Vec::new();
        while let Some(batch) = loader.next().unwrap() {
            let values = batch.images.whole().acquire().unwrap();
            let labels = batch.labels.whole().acquire().unwrap();
            let samples = values.chunks(len).zip(labels.iter());
            found.extend(samples.map(|(values, &label)| (values.to_vec(), label)));
        }
        assert!(found == [&wanted[..], &wanted[..]].concat(), "{kind}");
        let bad = loader.bad_samples();
        assert_eq!((bad.len(), bad[0].index, bad[0].substitute), (1, 3, 4));
        assert!(bad[0].message.contains("class 0/5") && bad[0].message.contains("not an image"));
    }
}
