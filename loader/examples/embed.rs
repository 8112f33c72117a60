//! Cuts the embedded data set from the full one.
//!
//! ```sh
//! cargo run --release -p millrace-loader --example embed -- DIR OUT
//! ```
//! reads the four IDX files of DIR and writes the first 6000 training and the first 1000 test
//! samples to four files in OUT, compressed as far as gzip goes, without time stamps, so that
//! the same input gives the same files.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use flate2::Compression;
use flate2::write::GzEncoder;
use millrace_loader::idx;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [dir, out] = &arguments[..] else {
        eprintln!("usage: embed DIR OUT");
        return ExitCode::from(2);
    };
    match embed(dir.as_ref(), out.as_ref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn embed(dir: &Path, out: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let (train, test) = idx::read_dir(dir)?;
    for (mut dataset, samples, prefix) in [(train, 6000, "train"), (test, 1000, "t10k")] {
        dataset.truncate(samples);
        let images = idx::encode_images(&dataset);
        write(&out.join(format!("{prefix}-images-idx3-ubyte.gz")), &images)?;
        let labels = idx::encode_labels(&dataset);
        write(&out.join(format!("{prefix}-labels-idx1-ubyte.gz")), &labels)?;
    }
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    let packed = encoder.finish()?;
    println!("{}: {} bytes, {} unpacked", path.display(), packed.len(), bytes.len());
    std::fs::write(path, packed)
}
