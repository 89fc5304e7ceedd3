//! Writes the made files with their checksums, and describes them as a table or as JSON.

use super::archive::sha256;
use crate::measure::Table;
use crate::tools::at;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// A file that the release consists of, with its path below the output folder.
pub(super) struct Product {
    pub(super) path: String,
    pub(super) bytes: Vec<u8>,
}

/// A written file.
pub(super) struct WrittenFile {
    path: String,
    bytes: u64,
    sha256: String,
}

/// Name of the file with all checksums, in the format of `sha256sum`.
const SUMS: &str = "SHA256SUMS";

/// Writes products and checksums to a folder. A subfolder that the products use is emptied first;
/// other files of earlier releases remain.
pub(super) fn write(folder: &Path, products: Vec<Product>) -> Result<Vec<WrittenFile>, String> {
    fs::create_dir_all(folder).map_err(at(folder))?;
    for product in &products {
        if let Some((inner, _)) = product.path.split_once('/') {
            let inner = folder.join(inner);
            if inner.is_dir() {
                fs::remove_dir_all(&inner).map_err(at(&inner))?;
            }
        }
    }
    let mut written = Vec::new();
    for Product { path, bytes } in products {
        write_file(&folder.join(&path), &bytes)?;
        written.push(WrittenFile { path, bytes: bytes.len() as u64, sha256: sha256(&bytes) });
    }
    written.sort_by(|one, other| one.path.cmp(&other.path));
    let lines = written.iter().map(|file| format!("{}  {}\n", file.sha256, file.path));
    write_file(&folder.join(SUMS), lines.collect::<String>().as_bytes())?;
    Ok(written)
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<(), String> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(at(parent))?;
    }
    fs::write(path, bytes).map_err(at(path))
}

/// Returns a table of the files; a folder has one row.
pub(super) fn table(written: &[WrittenFile]) -> String {
    let mut rows: Vec<(String, u64)> = Vec::new();
    for WrittenFile { path, bytes, .. } in written {
        let name = path.split_once('/').map_or(path.clone(), |(folder, _)| format!("{folder}/"));
        match rows.last_mut().filter(|(last, _)| *last == name) {
            Some((_, sum)) => *sum += bytes,
            None => rows.push((name, *bytes)),
        }
    }
    let mut table = Table::new(&["file", "size"]);
    for (name, bytes) in rows {
        table.row(vec![name, size(bytes)]);
    }
    table.row(vec![SUMS.to_owned(), String::new()]);
    table.render()
}

fn size(bytes: u64) -> String {
    let mib = bytes as f64 / f64::from(1 << 20);
    if mib < 0.1 { format!("{:.1} KiB", bytes as f64 / 1024.0) } else { format!("{mib:.1} MiB") }
}

/// Returns the files as JSON.
pub(super) fn json(written: &[WrittenFile]) -> Value {
    let file =
        |file: &WrittenFile| json!({"path": file.path, "bytes": file.bytes, "sha256": file.sha256});
    written.iter().map(file).collect()
}

#[cfg(test)]
mod tests {
    use super::{Product, table, write};
    use blkkin_sys::testing::Scratch;
    use std::fs;

    fn product(path: &str, bytes: usize) -> Product {
        Product { path: path.to_owned(), bytes: vec![b'a'; bytes] }
    }

    /// Files of an earlier release do not remain in the image's folder; checksums name all files.
    #[test]
    fn written_files() {
        let scratch = Scratch::new("package-output");
        let path = |name: &str| scratch.0.join(name);
        write(&scratch.0, vec![product("a.oci/old", 1), product("b", 1)]).expect("to write");
        let products =
            vec![product("c.deb", 3 << 20), product("a.oci/x/y", 512), product("a.oci/z", 512)];
        let written = write(&scratch.0, products).expect("to write");
        assert!(!path("a.oci/old").exists() && path("b").exists());
        let sums = fs::read_to_string(path("SHA256SUMS")).expect("checksums");
        let names: Vec<&str> = sums.lines().filter_map(|line| line.get(66..)).collect();
        assert_eq!(names, ["a.oci/x/y", "a.oci/z", "c.deb"]);
        let expected =
            "file           size\na.oci/      1.0 KiB\nc.deb       3.0 MiB\nSHA256SUMS\n";
        assert_eq!(table(&written), expected);
    }
}
