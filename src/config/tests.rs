//! Tests of the configuration, from YAML and from `-o` words.

use std::time::Duration;

use super::*;
use crate::fs::options::{Access, From, Isolation, OnDamage, UpTo};
use crate::fs::topic_options::CONFIGS;
use crate::view::encoding::Encoding;

fn read(text: &str) -> Result<Config, String> {
    let mut config = Config::default();
    yaml::read(&mut config, Path::new("t.yaml"), text).map_err(|error| error.to_string())?;
    Ok(config)
}

fn words(options: &str) -> Result<Config, String> {
    words_of(Caller::Person, options)
}

fn words_of(caller: Caller, options: &str) -> Result<Config, String> {
    Config::load(None, &[options.to_owned()], caller).map_err(|error| error.to_string())
}

#[test]
fn a_file_sets_every_kind_of_option() {
    let config = read(
        "isolation: read_committed\nup_to: high-watermark\nfrom: first-segment\non_damage: error\n\
         tail_records: 50\nformats_listed: [jsonl, tsv]\nvalue: json\nmeasure_wait: 500ms\n\
         max_batch_bytes: 64MiB\ncache_dir: /tmp/c\ncache_limit: 1048576\nmax_read_rate: 50MiB\nallow_other: true\n",
    )
    .unwrap();
    assert_eq!(config.options.of_topic("x").isolation, Isolation::ReadCommitted);
    assert_eq!(config.options.of_topic("x").up_to, UpTo::HighWatermark);
    assert_eq!(config.options.of_topic("x").from, From::FirstSegment);
    assert_eq!(config.options.of_topic("x").on_damage, OnDamage::Error);
    assert_eq!(config.options.of_topic("x").tail_records, 50);
    assert_eq!(config.options.of_topic("x").formats_listed, ["jsonl", "tsv"]);
    assert_eq!(
        (config.options.of_topic("x").key, config.options.of_topic("x").value),
        (Encoding::Text, Encoding::Json)
    );
    assert_eq!(config.options.measure_wait, Duration::from_millis(500));
    assert_eq!(config.options.max_batch_bytes, 64 << 20);
    assert_eq!(config.options.cache_dir, Some(PathBuf::from("/tmp/c")));
    assert_eq!(config.options.cache_limit, 1 << 20);
    assert_eq!(config.options.max_read_rate, Some(50 << 20));
    assert!(config.mount.allow_other);
}

#[test]
fn an_empty_file_is_the_defaults() {
    for text in ["", "# nothing yet\n", "---\n", "{}"] {
        assert_eq!(read(text), Ok(Config::default()), "{text:?}");
    }
}

#[test]
fn errors_of_a_file_say_where_and_what_was_expected() {
    let cases = [
        ("# x\nisolaton: read_committed\n", "t.yaml:2:1: unknown key `isolaton`, did you mean `isolation`?"),
        ("colour: red\n", "t.yaml:1:1: unknown key `colour`"),
        (
            "isolation: read_comitted\n",
            "t.yaml:1:12: isolation: expected `read_uncommitted` or `read_committed`, not `read_comitted`, \
             did you mean `read_committed`?",
        ),
        ("from: 7\n", "t.yaml:1:7: from: expected `log-start` or `first-segment`, not `7`"),
        (
            "tail_records: many\n",
            "t.yaml:1:15: tail_records: expected a whole number from 1, such as 1000, not `many`",
        ),
        (
            "tail_records: 0\n",
            "t.yaml:1:15: tail_records: expected a whole number from 1, such as 1000, not `0`",
        ),
        (
            "tail_records: -5\n",
            "t.yaml:1:15: tail_records: expected a whole number from 1, such as 1000, not `-5`",
        ),
        ("nonempty: yes\n", "t.yaml:1:11: nonempty: expected `true` or `false`, not `yes`"),
        ("nonempty:\n", "t.yaml:1:10: nonempty: expected `true` or `false`, not nothing"),
        (
            "cache_limit: 12 apples\n",
            "t.yaml:1:14: cache_limit: expected a size such as 64MiB, not `12 apples`",
        ),
        (
            "\nmeasure_wait: 10\n",
            "t.yaml:2:15: measure_wait: expected a time with its unit, such as 10s or 500ms, not `10`",
        ),
        (
            "cache_dir: here\n",
            "t.yaml:1:12: cache_dir: expected an absolute path such as /var/cache/topicfs, not `here`",
        ),
        (
            "formats_listed: [txt, xml]\n",
            "t.yaml:1:17: formats_listed: expected a list of formats, each once, of txt, jsonl, tsv, log, dump, \
             not the list `txt, xml`",
        ),
        (
            "isolation:\n  level: read_committed\n",
            "t.yaml:2:3: isolation: expected `read_uncommitted` or `read_committed`, not a mapping",
        ),
        ("from: log-start\nfrom: log-start\n", "t.yaml:2:1: `from` is set twice"),
        ("- isolation\n", "t.yaml:1:1: invalid type: sequence, expected lines of `option: value`"),
        ("isolation\n", "t.yaml:1:1: invalid type: string \"isolation\", expected lines of `option: value`"),
    ];
    for (text, expected) in cases {
        assert_eq!(read(text), Err(expected.to_owned()), "{text}");
    }
}

#[test]
fn what_is_no_yaml_has_a_place_too() {
    let error = read("from: log-start\nup_to: [\n").unwrap_err();
    assert!(error.starts_with("t.yaml:3:"), "{error}");
    assert!(!error.contains('\n'), "{error}");
}

#[test]
fn words_set_options() {
    let config =
        words("isolation=read_committed,value=json,tail_records=5,formats_listed=txt:tsv,nonempty=false");
    let config = config.unwrap();
    assert_eq!(config.options.of_topic("x").isolation, Isolation::ReadCommitted);
    assert_eq!(
        (config.options.of_topic("x").key, config.options.of_topic("x").value),
        (Encoding::Text, Encoding::Json)
    );
    assert_eq!(config.options.of_topic("x").tail_records, 5);
    assert_eq!(config.options.of_topic("x").formats_listed, ["txt", "tsv"]);
}

#[test]
fn the_words_of_fstab_are_ignored() {
    let words = "ro,exec,noexec,suid,nosuid,dev,nodev,auto,noauto,user,users,nofail,_netdev,defaults,\
                 x-systemd.automount,x-systemd.requires=network.target,comment=old,,noatime";
    assert_eq!(self::words(words), Ok(Config::default()));
}

#[test]
fn rw_is_an_error_from_a_person_only() {
    assert_eq!(
        words("rw"),
        Err("-o rw: a mount is read-only unless it is for appending: `--rw`, or the option `append`"
            .to_owned())
    );
    assert_eq!(words_of(Caller::MountHelper, "rw"), Ok(Config::default()));
}

#[test]
fn unknown_words_are_errors_unless_mount_is_sloppy() {
    let near = "-o isolaton=x: unknown option, did you mean `isolation`?";
    assert_eq!(words("ro,isolaton=x"), Err(near.to_owned()));
    assert_eq!(words_of(Caller::MountHelper, "isolaton=x"), Err(near.to_owned()));
    assert_eq!(words_of(Caller::SloppyMountHelper, "isolaton=x"), Ok(Config::default()));
    let far = "-o tea: unknown option; `topicfs mount --help` lists them";
    assert_eq!(words("tea"), Err(far.to_owned()));
}

#[test]
fn errors_of_values_name_the_word() {
    assert_eq!(
        words("from=first"),
        Err("-o from=first: expected `log-start` or `first-segment`, not `first`".to_owned())
    );
    assert_eq!(
        words("tail_records"),
        Err("-o tail_records: expected a whole number from 1, such as 1000, not nothing".to_owned())
    );
    assert_eq!(words("config"), Err("-o config: expected `config=FILE`".to_owned()));
}

#[test]
fn commas_and_backslashes_of_values_are_escaped() {
    let config = words(r"cache_dir=/a\,b\\c\d,log_file=/x\,y").unwrap();
    assert_eq!(config.options.cache_dir, Some(PathBuf::from(r"/a,b\c\d")));
    assert_eq!(config.mount.log_file, Some(PathBuf::from("/x,y")));
}

#[test]
fn words_win_over_the_file_and_the_last_word_wins() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("c.yaml");
    std::fs::write(&file, "tail_records: 7\nfrom: first-segment\n").unwrap();
    let load = |options: &[&str]| {
        let options: Vec<String> = options.iter().map(ToString::to_string).collect();
        Config::load(Some(&file), &options, Caller::Person).unwrap().options
    };
    assert_eq!(load(&[]).topic.tail_records, Some(7));
    let options = load(&["tail_records=8", "tail_records=9"]).topic;
    assert_eq!((options.tail_records, options.from), (Some(9), Some(From::FirstSegment)));

    let named = format!("config={}", file.display());
    let config = Config::load(None, &[named], Caller::MountHelper).unwrap();
    assert_eq!(config.options.of_topic("x").tail_records, 7);
}

#[test]
fn a_missing_file_is_named() {
    let error = Config::load(Some(Path::new("/no/such.yaml")), &[], Caller::Person).unwrap_err();
    assert_eq!(error.to_string(), "/no/such.yaml: No such file or directory (os error 2)");
}

#[test]
fn access_follows_allow_other() {
    assert_eq!(words("").unwrap().options.access, Access::OwnerOnly);
    assert_eq!(words("allow_other").unwrap().options.access, Access::FromSource);
}

#[test]
fn the_effective_configuration_reads_back() {
    let set = "isolation=read_committed,formats_listed=tsv,measure_wait=1500ms,cache_dir=/a: b,max_read_rate=3MiB,\
               value=json,cache_limit=5000,nonempty";
    for config in [Config::default(), words(set).unwrap()] {
        let text = config.to_yaml();
        let again = read(&text).unwrap();
        assert_eq!(again.to_yaml(), text);
        assert_eq!(again.options.of_topic("x"), config.options.of_topic("x"), "{text}");
    }
}

#[test]
fn sections_are_read_whatever_their_order_and_come_back() {
    let text = "formats_listed: [txt, csv]\ntopics:\n  '*':\n    tail_records: 5\n  'app-*':\n    value: hex\n    key: base64\n    \
                formats_listed: [kv]\n    timezone: Europe/Berlin\n  orders: {on_damage: error}\n  later:\n\
                formats:\n  csv: '%o,%s\\n'\n  kv: \"%k=%s\\n\"\n  Num-1_x: '%%1'\n";
    let config = read(text).unwrap();
    let options = &config.options;
    let texts: Vec<_> = options.formats.templates().map(|(name, template)| (name, template.text())).collect();
    assert_eq!(texts, [("csv", "%o,%s\\n"), ("kv", "%k=%s\n"), ("Num-1_x", "%%1")]);
    let patterns: Vec<_> = options.topics.iter().map(|rule| rule.pattern.text()).collect();
    assert_eq!(patterns, ["*", "app-*", "orders", "later"]);
    let app = options.of_topic("app-logs");
    assert_eq!((app.tail_records, app.key, app.value), (5, Encoding::Base64, Encoding::Hex));
    assert_eq!(
        (app.formats_listed, app.timezone.iana_name()),
        (vec!["kv".to_owned()], Some("Europe/Berlin"))
    );
    assert_eq!(options.of_topic("orders").on_damage, OnDamage::Error);
    assert_eq!(options.of_topic("orders").formats_listed, ["txt", "csv"]);
    let written = config.to_yaml();
    let again = read(&written).unwrap();
    assert_eq!((again.to_yaml(), &again.options.topics), (written, &config.options.topics));
}

#[test]
fn errors_of_sections_say_where() {
    let formats = "t.yaml:2:3: formats: ";
    let cases = [
        (
            "formats:\n  csv: '%o%x'\n",
            "t.yaml:2:8: formats.csv: `%x` is no field; there are %t %p %o %k %s %K %S %R %T %h %% and %{T:iso}",
        ),
        (
            "formats:\n  csv: '%o\\xff'\n",
            "t.yaml:2:8: formats.csv: after `\\x` comes a digit from 0 to 9, as in `\\x0ff`; kcat would not take it for a byte otherwise",
        ),
        ("formats:\n  csv: ''\n", "t.yaml:2:8: formats.csv: it is empty"),
        (
            "formats:\n  csv: 5\n",
            "t.yaml:2:8: formats.csv: expected a format string such as '%o %s\\n', not `5`",
        ),
        (
            "formats:\n  csv: %o\n",
            "t.yaml:2:8: found character that cannot start any token; quotes around it help: '%o' or '*'",
        ),
        ("formats:\n  json: '%o'\n", &format!("{formats}`json` is a format of topicfs itself")),
        ("formats:\n  TXT: '%o'\n", &format!("{formats}`TXT` is a format of topicfs itself")),
        ("formats:\n  key: '%o'\n", &format!("{formats}`key` is a format of topicfs itself")),
        (
            "formats:\n  1st: '%o'\n",
            &format!("{formats}a name of a format is a letter and up to 31 letters, digits, `_` and `-`"),
        ),
        (
            "formats:\n  c.v: '%o'\n",
            &format!("{formats}a name of a format is a letter and up to 31 letters, digits, `_` and `-`"),
        ),
        ("formats:\n  a: x\n  a: y\n", "t.yaml:3:3: formats: `a` is set twice"),
        (
            "formats: [csv]\n",
            "t.yaml:1:10: formats: invalid type: sequence, expected lines of `name: 'format string'`",
        ),
        ("formats: {}\nformats: {}\n", "t.yaml:2:1: `formats` is set twice"),
        (
            "formats_listed: [csv]\n",
            "t.yaml:1:17: formats_listed: expected a list of formats, each once, of txt, jsonl, tsv, log, dump, not the list `csv`",
        ),
        (
            "topics:\n  a:\n    cache_dir: /x\n",
            "t.yaml:3:5: topics.a: `cache_dir` is one for all topics; it belongs at the top of the file",
        ),
        (
            "topics:\n  a:\n    formats: {}\n",
            "t.yaml:3:5: topics.a: `formats` is one for all topics; it belongs at the top of the file",
        ),
        (
            "topics:\n  a:\n    isolaton: x\n",
            "t.yaml:3:5: topics.a: unknown key `isolaton`, did you mean `isolation`?",
        ),
        (
            "topics:\n  a:\n    value: jason\n",
            "t.yaml:3:12: topics.a.value: expected `text`, `base64`, `hex` or `json`, not `jason`, did you mean `json`?",
        ),
        (
            "topics:\n  a:\n    timezone: Berlin\n",
            "t.yaml:3:15: topics.a.timezone: expected a timezone such as UTC or Europe/Berlin, not `Berlin`",
        ),
        (
            "topics:\n  a:\n    from: log-start\n    from: log-start\n",
            "t.yaml:4:5: topics.a: `from` is set twice",
        ),
        (
            "topics:\n  a: 5\n",
            "t.yaml:2:6: topics.a: invalid type: integer `5`, expected lines of `option: value`",
        ),
        (
            "topics:\n  'a[': {}\n",
            "t.yaml:2:3: topics: `a[` is no pattern: unclosed character class; missing ']'",
        ),
        ("topics:\n  a: {}\n  b: {}\n  a: {}\n", "t.yaml:4:3: topics: `a` is set twice"),
        (
            "topics:\n  7: {}\n",
            "t.yaml:2:3: topics: invalid type: integer `7`, expected a topic or a pattern of topics, in quotes if it looks like something else",
        ),
        (
            "topics:\n  - a\n",
            "t.yaml:2:3: topics: invalid type: sequence, expected patterns of topics, each with lines of `option: value` below it",
        ),
        ("topic:\n", "t.yaml:1:1: unknown key `topic`, did you mean `topics`?"),
    ];
    let wrong: Vec<_> = cases
        .iter()
        .filter(|(text, expected)| read(text) != Err((*expected).to_owned()))
        .map(|(text, expected)| format!("{text}  is     {:?}\n  not    {expected:?}\n", read(text)))
        .collect();
    assert_eq!(wrong, Vec::<String>::new(), "{}", wrong.concat());
    let star = read("topics:\n  *: {}\n").unwrap_err();
    assert!(
        star.starts_with("t.yaml:2:4: ") && star.ends_with("quotes around it help: '%o' or '*'"),
        "{star}"
    );
}

#[test]
fn a_word_of_options_is_for_all_topics_and_rules_of_the_file_stay() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("c.yaml");
    std::fs::write(&file, "value: hex\ntopics:\n  a: {value: base64}\nformats: {csv: '%o'}\n").unwrap();
    let words = ["value=json,formats_listed=csv:txt,timezone=europe/berlin".to_owned()];
    let options = Config::load(Some(&file), &words, Caller::Person).unwrap().options;
    assert_eq!(
        (options.of_topic("a").value, options.of_topic("b").value),
        (Encoding::Base64, Encoding::Json)
    );
    assert_eq!(options.of_topic("c").formats_listed, ["csv", "txt"]);
    assert_eq!(options.of_topic("c").timezone.iana_name(), Some("Europe/Berlin"));
    let section = "that is a section of the file that `config=FILE` names";
    assert_eq!(self::words("topics=a"), Err(format!("-o topics=a: {section}")));
}

#[test]
fn every_documented_configuration_is_read_and_changes_something() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("mount-configs");
    let mut seen = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let config = Config::load(Some(&path), &[], Caller::Person).unwrap();
        assert_ne!(config, Config::default(), "{}", path.display());
        seen += 1;
    }
    assert!(seen >= 4);
    let text = include_str!("../../docs/config.md");
    let (_, example) = text.split_once("```yaml\n").unwrap();
    let (example, _) = example.split_once("```").unwrap();
    assert_eq!(read(example).unwrap().options.topics.len(), 3);
}

#[test]
fn the_help_names_every_option_in_lines_that_fit() {
    let help = help();
    for name in keys::names() {
        assert!(help.contains(&format!("\n  {name}")) || help.starts_with(&format!("  {name}")));
    }
    assert!(help.lines().all(|line| line.len() <= 100), "{help}");
}

#[test]
fn kafkas_configs_that_nobody_named_are_left_to_each_topic() {
    let configs = |text: &str| -> Vec<String> {
        let yaml: serde_yaml::Mapping = serde_yaml::from_str(text).unwrap();
        let names = yaml.keys().filter_map(|key| key.as_str().map(str::to_owned));
        names.filter(|name| CONFIGS.contains(&name.as_str())).collect()
    };
    assert_eq!(configs(&Config::default().to_yaml()), [""; 0]);
    assert_eq!(configs(&words("retention.ms=1h").unwrap().to_yaml()), ["retention.ms"]);
    let names: Vec<_> = keys::names().filter(|name| CONFIGS.contains(name)).collect();
    assert_eq!(names.len(), CONFIGS.len(), "{names:?}");
}
