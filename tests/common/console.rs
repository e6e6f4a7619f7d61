//! The commands of a document's `console` blocks, each with the output shown.

/// Commands, and what they print; an exit code that isn't 0 is a last line `[1]`.
pub fn examples(document: &str) -> Vec<(String, String)> {
    let mut examples: Vec<(String, String)> = Vec::new();
    let mut inside = false;
    for line in document.lines() {
        match (inside, line) {
            (false, "```console") => inside = true,
            (true, "```") => inside = false,
            (true, line) => match line.strip_prefix("$ ") {
                Some(command) => examples.push((command.to_owned(), String::new())),
                None => {
                    let (_, output) = examples.last_mut().expect("output comes after its command");
                    output.push_str(line);
                    output.push('\n');
                }
            },
            (false, _) => {}
        }
    }
    examples
}
