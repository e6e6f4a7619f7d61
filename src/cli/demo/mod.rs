//! `topicfs demo`: a real broker's data, mounted to try things on, gone when the command ends.

mod sample;
mod tour;

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use super::args::DemoArgs;
use super::logging::{self, Level, To};
use super::mount::{self, open};
use crate::config::Config;
use crate::mount::checks::{self, Wishes};
use crate::mount::session::{Mounted, Plan};
use crate::mount::signals::Signals;
use crate::mount::sys::{self, ClosedPipe};
use sample::Sample;
use tour::Place;

/// `topicfs demo`
///
/// # Errors
/// When the sample data can't be unpacked.
pub fn run(args: &DemoArgs, level: Option<Level>) -> anyhow::Result<ExitCode> {
    sys::on_closed_pipe(ClosedPipe::Fails);
    logging::start(To::Stderr, level, Level::Warn)?;
    let sample = Sample::unpack()?;
    match mount(&sample) {
        Ok(mounted) if args.tour => {
            let code = tour::run(&Place::Mount(&sample.mountpoint))?;
            mounted.unmounter().unmount()?;
            mounted.wait()?;
            Ok(code)
        }
        Ok(mounted) => {
            say(&welcome(&sample))?;
            mounted.wait()?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            say(&format!("No mount here: {error:#}.\nSo this is the tour without one.\n"))?;
            tour::run(&Place::Source(&sample.directory))
        }
    }
}

fn mount(sample: &Sample) -> anyhow::Result<Mounted> {
    let mountpoint = checks::mountpoint(&sample.mountpoint, Wishes::default())?;
    let directory = sample.directory.clone();
    let signals = Signals::take(move || sample::remove(&directory))?;
    let source_name = sample.data.display().to_string();
    let fs = open(&source_name, &Config::default())?;
    let plan = Plan { path: mountpoint.path, source_name, allow_other: false, is_writable: false };
    Ok(signals.around(|| mount::mount(fs, &plan))?)
}

/// What to type next, with paths that can be copied.
fn welcome(sample: &Sample) -> String {
    let mountpoint = sample.mountpoint.display();
    let mut text = format!(
        "A tea shop's Kafka data, from a real broker, is mounted on {mountpoint}\n\n\
         In another terminal:\n\n  cd {mountpoint}\n"
    );
    for step in tour::STEPS {
        text.push_str(&format!("  {:56} # {}\n", step.mounted, step.about));
    }
    text.push_str("\n^C here ends it and removes everything.\n");
    text
}

/// Prints to stdout; nobody listening is no error.
fn say(text: &str) -> io::Result<()> {
    match io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        said => said,
    }
}

/// The directory that commands of the tour run in.
fn working_directory<'a>(place: &Place<'a>) -> &'a Path {
    match place {
        Place::Mount(path) | Place::Source(path) => path,
    }
}
