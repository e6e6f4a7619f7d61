//! The `topicfs` command.

fn main() -> std::process::ExitCode {
    topicfs::cli::main()
}
