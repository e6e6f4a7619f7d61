//! Rules of the code that no compiler checks: the import direction, where unsafe is, module docs, file sizes.

#![allow(clippy::expect_used, reason = "a test that can't go on stops with a panic")]

use std::fs;
use std::path::{Path, PathBuf};

/// The layers from the binary down; each imports only from those after it.
const LAYERS: [&str; 9] = ["cli", "config", "mount", "fuse", "fs", "view", "log", "format", "units"];

/// Neighbours that stand at the same height: neither imports the other.
const BESIDE: [(&str, &str); 2] = [("config", "mount"), ("mount", "config")];

/// Files that may hold unsafe code.
const UNSAFE_FILES: [&str; 4] = ["log/files/sys.rs", "log/sidecar.rs", "mount/sys.rs", "view/json_string.rs"];

/// Most lines of a file without its tests.
const MAX_LINES: usize = 600;

fn sources() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    let mut directories = vec![root.clone()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).expect("src can be listed") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("a source file is text");
                found.push((path.strip_prefix(&root).expect("below src").to_owned(), text));
            }
        }
    }
    found.sort();
    assert!(found.len() > 40, "only {} files found", found.len());
    found
}

fn layer_of(path: &Path) -> Option<usize> {
    let first = path.iter().next()?.to_str()?.trim_end_matches(".rs").to_owned();
    LAYERS.iter().position(|layer| *layer == first)
}

#[test]
fn a_module_imports_only_from_modules_to_its_right() {
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        let Some(own) = layer_of(&path) else { continue };
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            for (other, layer) in LAYERS.iter().enumerate() {
                let named = code.contains(&format!("crate::{layer}::"));
                let beside = BESIDE.contains(&(LAYERS[own], layer));
                if named && (other < own || beside) {
                    wrong.push(format!("{}:{}: {} imports {layer}", path.display(), number + 1, LAYERS[own]));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn only_the_binary_and_its_layers_know_fuser_and_clap() {
    for (path, text) in sources() {
        let Some(own) = layer_of(&path) else { continue };
        let fs = LAYERS.iter().position(|layer| *layer == "fs").expect("a layer");
        for library in ["fuser::", "clap::", "anyhow::"] {
            assert!(own < fs || !text.contains(library), "{} uses {library}", path.display());
        }
    }
}

#[test]
fn format_does_no_input_or_output() {
    for (path, text) in sources() {
        let name = path.to_string_lossy();
        if name.starts_with("format/") && !name.ends_with("testing.rs") {
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            for word in ["std::fs", "std::path", "std::time", "tracing::", " File::"] {
                assert!(!code.contains(word), "{name} uses {word}");
            }
        }
    }
}

#[test]
fn unsafe_code_is_in_few_files() {
    for (path, text) in sources() {
        let allowed = UNSAFE_FILES.iter().any(|file| path == Path::new(file));
        let code =
            text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
        assert!(allowed || !code.contains("unsafe "), "{} has unsafe code", path.display());
    }
}

#[test]
fn every_module_says_what_it_is() {
    for (path, text) in sources() {
        assert!(text.starts_with("//! "), "{} has no module documentation", path.display());
    }
}

#[test]
fn files_stay_readable() {
    for (path, text) in sources() {
        let lines = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().lines().count();
        assert!(lines <= MAX_LINES, "{} has {lines} lines", path.display());
    }
}
