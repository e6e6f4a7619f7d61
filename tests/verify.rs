mod common;
use common::fixtures;
#[test]
fn explore() {
    use topicfs::format::batch::Limits;
    use topicfs::log::source::*;
    use topicfs::log::verify::*;
    let o = SourceOptions { limits: Limits::default(), follow_symlinks: false };
    for case in fixtures::cases() {
        for data in case.data_dirs() {
            let s = Source::open(data.to_str().unwrap(), o).unwrap();
            Plan::new(&s).run(2, &|_| (), &mut |r| {
                for p in &r.problems {
                    println!(
                        "{}",
                        p.line(&p.file.strip_prefix(fixtures::dir()).unwrap().to_string_lossy()).trim_end()
                    );
                }
            });
        }
    }
}
#[test]
fn explore_damage() {
    use topicfs::format::batch::Limits;
    use topicfs::log::source::*;
    use topicfs::log::verify::*;
    let o = SourceOptions { limits: Limits::default(), follow_symlinks: false };
    for case in fixtures::damage_cases() {
        println!(
            "== {} file {:?} at {:?} batch {:?} readable {:?}",
            case.name,
            case.expect.file,
            case.expect.at,
            case.expect.batch.map(|b| (b.position, b.size)),
            case.expect.readable
        );
        let s = Source::open(case.data().to_str().unwrap(), o).unwrap();
        Plan::new(&s).run(2, &|_| (), &mut |r| {
            for p in &r.problems {
                println!("    {}", p.line(&p.file.file_name().unwrap().to_string_lossy()).trim_end());
            }
        });
    }
}
