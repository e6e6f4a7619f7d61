//! Going to the background without losing an error: the process splits before it has threads, the child mounts and
//! serves, and the parent returns when the child says that it does, or with the child's error.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::unix::process::ExitStatusExt;

use super::sys::{self, ClosedPipe, Fork};

/// Which of the two processes this is.
#[derive(Debug)]
pub enum Process {
    /// The one that a shell waits for.
    Parent(Waiter),
    /// The one that serves.
    Child(Reporter),
}

/// Waits for the other process.
#[derive(Debug)]
pub struct Waiter {
    pipe: PipeReader,
    child: i32,
}

/// Tells those who wait how it went.
#[derive(Debug)]
pub enum Reporter {
    /// Nobody waits: the serving process is the one that was started.
    Foreground,
    /// The parent does.
    Background(PipeWriter),
}

/// The byte that means "it serves"; anything else is the text of an error.
const SERVES: u8 = 0;

/// Splits the process.
///
/// # Errors
/// When there are threads already, or no resources.
pub fn split() -> io::Result<Process> {
    let (reader, writer) = io::pipe()?;
    match sys::fork()? {
        Fork::Parent(child) => Ok(Process::Parent(Waiter { pipe: reader, child })),
        Fork::Child => {
            sys::on_closed_pipe(ClosedPipe::Fails);
            sys::leave_session()?;
            Ok(Process::Child(Reporter::Background(writer)))
        }
    }
}

impl Waiter {
    /// Returns when the child serves.
    ///
    /// # Errors
    /// The text of the child's error, or how it ended without one.
    pub fn wait(mut self) -> Result<(), String> {
        let mut said = Vec::new();
        let mut first = [0];
        let heard = self.pipe.read(&mut first).and_then(|count| match (count, first) {
            (1, [SERVES]) => Ok(true),
            (0, _) => Ok(false),
            _ => {
                said.extend(first);
                self.pipe.read_to_end(&mut said).map(|_| false)
            }
        });
        match heard {
            Ok(true) => Ok(()),
            Ok(false) if !said.is_empty() => Err(String::from_utf8_lossy(&said).into_owned()),
            _ => Err(self.how_it_ended()),
        }
    }

    fn how_it_ended(&self) -> String {
        match sys::wait_for(self.child).map(|status| (status.signal(), status.code())) {
            Ok((Some(signal), _)) => {
                format!("the mount process was ended by signal {signal} before it served")
            }
            Ok((_, Some(code))) => format!("the mount process ended with status {code} before it served"),
            Ok((None, None)) | Err(_) => "the mount process ended before it served".to_owned(),
        }
    }
}

impl Reporter {
    /// Says that it serves, and in the background leaves the terminal and the working directory.
    ///
    /// # Errors
    /// When nobody waits any more, because they were interrupted: the mount is not wanted then.
    pub fn serves(self) -> io::Result<()> {
        if let Self::Background(mut pipe) = self {
            std::env::set_current_dir("/")?;
            sys::drop_stdio()?;
            pipe.write_all(&[SERVES])?;
        }
        Ok(())
    }

    /// Says why it doesn't. Returns whether somebody else says it to the user, once this process has ended.
    pub fn failed(&self, text: &str) -> bool {
        match self {
            Self::Foreground => false,
            Self::Background(pipe) => {
                let mut pipe: &PipeWriter = pipe;
                pipe.write_all(text.as_bytes()).is_ok()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Waiter, Reporter) {
        let (pipe, writer) = io::pipe().unwrap();
        // No process has this id, so waiting for it fails at once.
        (Waiter { pipe, child: i32::MAX }, Reporter::Background(writer))
    }

    #[test]
    fn the_text_of_an_error_comes_through_whole() {
        let (waiter, reporter) = pair();
        assert!(reporter.failed("no such data directory; ä"));
        drop(reporter);
        assert_eq!(waiter.wait(), Err("no such data directory; ä".to_owned()));
    }

    #[test]
    fn silence_is_an_error() {
        let (waiter, reporter) = pair();
        drop(reporter);
        assert_eq!(waiter.wait(), Err("the mount process ended before it served".to_owned()));
    }

    #[test]
    fn in_the_foreground_errors_are_left_to_the_caller() {
        assert!(!Reporter::Foreground.failed("x"));
        assert!(Reporter::Foreground.serves().is_ok());
    }
}
