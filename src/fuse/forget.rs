//! Tells the kernel what it is to forget.

use std::sync::Arc;

use fuser::{INodeNo, Notifier};

use crate::fs::Fs;
use crate::fs::forgetting::Forget;

/// Begins the thread. No thread that answers requests may do this: the kernel waits for pages that are being read, and for
/// look-ups in a directory.
pub fn begin(fs: &Arc<Fs>, notifier: Notifier) {
    let what = fs.forgetting();
    let body = move || {
        for what in what {
            tell(&notifier, &what);
        }
    };
    if let Err(error) = std::thread::Builder::new().name("forget".into()).spawn(body) {
        tracing::warn!(%error, "the kernel keeps what is gone");
    }
}

fn tell(notifier: &Notifier, what: &Forget) {
    let told = match what {
        Forget::Pages(ino, span) => {
            let (at, end) = (i64::try_from(span.start), i64::try_from(span.end));
            let (Ok(at), Ok(end)) = (at, end) else { return };
            notifier.inval_inode(INodeNo(*ino), at, end.saturating_sub(at))
        }
        Forget::Name(parent, name) => notifier.inval_entry(INodeNo(*parent), name),
    };
    // It says so when it knows nothing of it.
    if let Err(error) = told {
        tracing::debug!(?what, %error, "not forgotten");
    }
}
