//! systemd's readiness protocol (sd_notify(3)): one datagram to the socket that `NOTIFY_SOCKET` names.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Tells systemd that the mount serves, where it asked to be told.
pub fn notify() {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else { return };
    if let Err(error) = send(&socket, "READY=1\nSTATUS=mounted\n") {
        tracing::warn!("NOTIFY_SOCKET {}: {error}", socket.display());
    }
}

fn send(socket: &OsStr, text: &str) -> io::Result<()> {
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(text.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_sockets_are_reached() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let by_path = UnixDatagram::bind(&path).unwrap();
        send(path.as_os_str(), "READY=1\n").unwrap();
        let mut buffer = [0; 64];
        let len = by_path.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..len], b"READY=1\n");

        let name = format!("topicfs-test-{}", std::process::id());
        let abstract_address = SocketAddr::from_abstract_name(name.as_bytes()).unwrap();
        let by_name = UnixDatagram::bind_addr(&abstract_address).unwrap();
        send(OsStr::new(&format!("@{name}")), "READY=1\n").unwrap();
        assert_eq!(by_name.recv(&mut buffer).unwrap(), 8);
        assert!(send(OsStr::new("/no/such/socket"), "x").is_err());
    }
}
