//! The grammar of names in `by-key`.
//!
//! | name | is |
//! |---|---|
//! | `order-4711` | that key: printable ASCII stands for itself |
//! | `a%2Fb`, `%C3%A9`, `100%25` | all else, `/` and `%`, by two hex digits |
//! | `%2Ehidden` | a key that begins with a dot: no name does |
//! | `report%2Ejson` | a key that ends in a format's name: there its last dot too |
//! | `%` | the empty key |
//! | `some-long-beg%~0123456789abcdef` | a key whose name would have more than 192 bytes: how it begins, and the first 16 hex digits of its SHA-256 |
//! | `order-4711.jsonl`, `order-4711.key` | a name as above, and a format |
//!
//! [`build`] gives the one spelling that is listed. [`parse`] takes others too, since whoever types or makes a name in a script need not know
//! all of this: any byte by hex digits of either case, bytes above ASCII as they are, a long key in full where that fits, and of
//! its beginning as much as one likes, even nothing. No name begins with a dot, so that what shells and file managers look
//! for everywhere (`.git`, `.hidden`) begins no build.

use crate::fs::names::{RecordForm, push_escaped, push_hex};
use crate::log::keys::hash::{LONG_KEY, hash, of_long};
use crate::view::format::Formats;

/// Longer names are cut: so every key of up to 64 bytes has its own, and any format fits behind it.
const MAX_NAME: usize = 3 * LONG_KEY;
/// What stands before the hash of a cut name; no escape begins so.
const CUT: &str = "%~";
/// Hex digits of that hash.
const HASH_DIGITS: usize = 16;
/// The name of the empty key.
const EMPTY: &str = "%";

/// What a name says of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamedKey {
    /// All of it.
    Whole(Vec<u8>),
    /// How it begins, and its hash.
    Cut(Vec<u8>, u64),
}

impl NamedKey {
    /// Whether it is this key.
    pub fn is(&self, key: &[u8]) -> bool {
        match self {
            Self::Whole(whole) => key == whole,
            Self::Cut(beginning, hash) => {
                key.len() > LONG_KEY && key.starts_with(beginning) && of_long(key) == *hash
            }
        }
    }

    /// The number by which it is looked for.
    pub fn hash(&self) -> u64 {
        match self {
            Self::Whole(key) => hash(key),
            Self::Cut(_, hash) => *hash,
        }
    }
}

/// The key that a name stands for, and how it is shown; `None` for what is no name here.
pub fn parse(name: &[u8], formats: &Formats) -> Option<(NamedKey, RecordForm)> {
    if name.first().is_none_or(|first| *first == b'.') {
        return None;
    }
    let dot = name.iter().rposition(|byte| *byte == b'.');
    let split = dot.and_then(|dot| Some((name.get(..dot)?, form(name.get(dot + 1..)?, formats)?)));
    let (stem, form) = split.unwrap_or((name, RecordForm::Value));
    Some((named(stem)?, form))
}

/// The name of a key.
pub fn build(key: &[u8], formats: &Formats) -> String {
    if key.is_empty() {
        return EMPTY.to_owned();
    }
    let dot = key.iter().rposition(|byte| *byte == b'.');
    let before_format =
        dot.filter(|dot| key.get(dot + 1..).and_then(|extension| form(extension, formats)).is_some());
    let mut name = String::with_capacity(key.len());
    let mut fits = 0;
    for (index, byte) in key.iter().enumerate() {
        match byte {
            b'.' if index == 0 || Some(index) == before_format => push_hex(*byte, &mut name),
            _ => push_escaped(*byte, &mut name),
        }
        if name.len() <= MAX_NAME - CUT.len() - HASH_DIGITS {
            fits = name.len();
        }
        if name.len() > MAX_NAME {
            name.truncate(fits);
            return format!("{name}{CUT}{:0HASH_DIGITS$x}", of_long(key));
        }
    }
    name
}

fn form(extension: &[u8], formats: &Formats) -> Option<RecordForm> {
    RecordForm::of_extension(std::str::from_utf8(extension).ok()?, formats)
}

fn named(stem: &[u8]) -> Option<NamedKey> {
    if stem == EMPTY.as_bytes() {
        return Some(NamedKey::Whole(Vec::new()));
    }
    let cut = stem.windows(CUT.len()).position(|two| two == CUT.as_bytes());
    let Some(cut) = cut else { return unescaped(stem).map(NamedKey::Whole) };
    let digits = stem.get(cut + CUT.len()..)?;
    let is_hash = digits.len() == HASH_DIGITS && digits.iter().all(u8::is_ascii_hexdigit);
    let hash = std::str::from_utf8(digits).ok().filter(|_| is_hash)?;
    Some(NamedKey::Cut(unescaped(stem.get(..cut)?)?, u64::from_str_radix(hash, 16).ok()?))
}

fn unescaped(name: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.iter();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => digit(*rest.next()?)? << 4 | digit(*rest.next()?)?,
            other => *other,
        });
    }
    Some(bytes)
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(name: &[u8]) -> Option<(NamedKey, RecordForm)> {
        super::parse(name, &Formats::default())
    }

    fn build(key: &[u8]) -> String {
        super::build(key, &Formats::default())
    }
    use crate::view::format::Format;
    use proptest::prelude::*;

    #[test]
    fn the_table_at_the_top() {
        let long = format!("some-long-beginning/{}", "é".repeat(60));
        let sha = of_long(long.as_bytes());
        let cut = format!("some-long-beginning%2F{}%~{sha:016x}", "%C3%A9".repeat(25));
        let cases: [(&[u8], &str); 16] = [
            (b"order-4711", "order-4711"),
            (b"a/b", "a%2Fb"),
            ("é".as_bytes(), "%C3%A9"),
            (b"100%", "100%25"),
            (b"a b~", "a b~"),
            (b"\0\n\x7f", "%00%0A%7F"),
            (b".hidden", "%2Ehidden"),
            (b".", "%2E"),
            (b"..", "%2E."),
            (b"report.json", "report%2Ejson"),
            (b"a.b.txt", "a.b%2Etxt"),
            (b".log", "%2Elog"),
            (b"v1.2", "v1.2"),
            (b"README.txt", "README%2Etxt"),
            (b"", "%"),
            (long.as_bytes(), &cut),
        ];
        for (key, name) in cases {
            assert_eq!(build(key), name);
            let (named, form) = parse(name.as_bytes()).unwrap();
            assert!(named.is(key) && form == RecordForm::Value, "{name}: {named:?}");
        }
    }

    #[test]
    fn other_spellings() {
        let whole = |key: &str| Some((NamedKey::Whole(key.into()), RecordForm::Value));
        assert_eq!(parse(b"%61%2fb"), whole("a/b"));
        assert_eq!(parse("köln".as_bytes()), whole("köln"));
        assert_eq!(parse(b"a%2Ejson"), whole("a.json"));
        assert_eq!(parse(b"a."), whole("a."));
        let (named, form) = parse(b"%.jsonl").unwrap();
        assert_eq!((named, form), (NamedKey::Whole(vec![]), RecordForm::Rendered(Format::Jsonl)));
        let key = [b'x'; 70];
        let name = format!("%~{:016X}.key", of_long(&key));
        let (named, form) = parse(name.as_bytes()).unwrap();
        assert!(named.is(&key) && !named.is(&[b'y'; 70]));
        assert_eq!((named.hash(), form), (hash(&key), RecordForm::Key));
    }

    #[test]
    fn what_is_no_name() {
        for name in [
            "",
            ".",
            "..",
            ".git",
            ".jsonl",
            "%%",
            "a%",
            "a%2",
            "%G0",
            "%+1",
            "a%~",
            "a%~0123",
            "%~x123456789abcdef",
        ] {
            assert_eq!(parse(name.as_bytes()), None, "{name}");
        }
    }

    proptest! {
        #[test]
        fn a_key_is_found_by_its_name(
            key in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..400),
                "[.%~/a-c]{0,6}(\\.(txt|json|jsonl|key|log|dump|tsv)){0,2}".prop_map(String::into_bytes),
                "[ -~]{0,300}".prop_map(String::into_bytes),
            ],
            extension in prop::sample::select(vec!["", ".txt", ".json", ".jsonl", ".key", ".tsv"]),
        ) {
            let name = format!("{}{extension}", build(&key));
            prop_assert!(name.len() <= MAX_NAME + extension.len() && name.is_ascii() && !name.contains('/'));
            let (named, found) = parse(name.as_bytes()).unwrap();
            prop_assert!(named.is(&key), "{name}");
            prop_assert_eq!(named.hash(), hash(&key));
            let expected = extension.strip_prefix('.').map_or(Some(RecordForm::Value), |extension| {
                RecordForm::of_extension(extension, &Formats::default())
            });
            prop_assert_eq!(Some(found), expected);
        }

        #[test]
        fn keys_have_names_of_their_own(a in "[.%a/]{0,5}", b in "[.%a/]{0,5}") {
            prop_assert_eq!(build(a.as_bytes()) == build(b.as_bytes()), a == b);
        }

        #[test]
        fn any_bytes_can_be_parsed(name in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Some((NamedKey::Whole(key), _)) = parse(&name) {
                prop_assert!(parse(build(&key).as_bytes()).unwrap().0.is(&key));
            }
        }
    }
}
