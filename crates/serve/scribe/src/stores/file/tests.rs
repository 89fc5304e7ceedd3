use super::*;
use blkkin_sys::testing::Scratch;

fn plan(path: &Path) -> FilePlan {
    FilePlan {
        path: path.to_owned(),
        sub_directory: None,
        has_hostname: false,
        base: None,
        symlink: None,
        makes_symlink: true,
        bytes_max: 0,
        rotation: Rotation::Never,
        rotates_on_reopen: false,
        adds_newlines: true,
        writes_category: false,
        writes_meta: false,
        chunk_bytes: 0,
    }
}

fn context(is_exact: bool) -> StoreContext {
    StoreContext { category: b"cat".to_vec(), is_exact, bucket: None, may_be_torn: false }
}

fn batch(messages: &[&str]) -> Batch {
    let mut batch = Batch::default();
    for message in messages {
        batch.push(Entry { category: b"cat", message: message.as_bytes() });
    }
    batch
}

/// Returns the names and the contents of the files in a directory.
fn files(directory: &Path) -> Vec<(String, String)> {
    let mut found: Vec<_> = fs::read_dir(directory)
        .expect("a directory")
        .map(|entry| entry.expect("an entry"))
        .map(|entry| {
            let text = fs::read(entry.path()).expect("a file");
            (entry.file_name().into_string().expect("text"), String::from_utf8(text).expect("text"))
        })
        .collect();
    found.sort();
    found
}

#[track_caller]
fn check(directory: &Path, expected: &[(&str, &str)]) {
    let found = files(directory);
    let found: Vec<_> = found.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    assert_eq!(found, expected);
}

#[test]
fn dates() {
    let check = |seconds, expected: &str| {
        assert_eq!(Timestamp(seconds).date().to_string(), expected);
    };
    check(0, "1970-01-01");
    check(951_782_400, "2000-02-29");
    check(951_868_799, "2000-02-29");
    check(951_868_800, "2000-03-01");
    check(1_798_761_599, "2026-12-31");
    check(4_107_542_400, "2100-03-01");
    check(2_147_483_648, "2038-01-19");
    assert!(Timestamp(u64::MAX).date().to_string().len() < 12);
}

#[test]
fn files_grow_and_are_numbered() {
    let scratch = Scratch::new("scribe-file");
    let mut plan = plan(&scratch.0);
    File::new(&plan, &context(true)).write(&batch(&["one", "two"])).expect("to write");
    let both = "one\ntwo\n";
    check(&scratch.0, &[("cat_00000", both), ("cat_current", both)]);
    // A new store appends to the last file.
    File::new(&plan, &context(true)).write(&batch(&["three"])).expect("to write");
    let three = "one\ntwo\nthree\n";
    check(&scratch.0, &[("cat_00000", three), ("cat_current", three)]);
    // After a crash the store begins a new file.
    let torn = StoreContext { may_be_torn: true, ..context(true) };
    File::new(&plan, &torn).write(&batch(&["four"])).expect("to write");
    check(&scratch.0, &[("cat_00000", three), ("cat_00001", "four\n"), ("cat_current", "four\n")]);
    // A category without an exact name in the configuration gets its own directory.
    (plan.writes_category, plan.adds_newlines) = (true, false);
    (plan.base, plan.makes_symlink) = (Some("other".to_owned()), false);
    let bucket = StoreContext { bucket: Some("bucket007".to_owned()), ..context(false) };
    File::new(&plan, &bucket).write(&batch(&["a", "b"])).expect("to write");
    check(&scratch.0.join("cat/bucket007"), &[("cat_00000", "cat\nacat\nb")]);
}

#[test]
fn files_end_at_their_size() {
    let scratch = Scratch::new("scribe-file");
    let plan = FilePlan { bytes_max: 10, writes_meta: true, ..plan(&scratch.0) };
    let mut file = File::new(&plan, &context(true));
    file.write(&batch(&["12345", "67890", "abc", "defghijk", "l"])).expect("to write");
    let meta =
        |number| format!("scribe_meta<new_logfile>: {}/cat_0000{number}\n", scratch.0.display());
    let first = format!("12345\n67890\n{}", meta(1));
    let second = format!("abc\ndefghijk\n{}", meta(2));
    check(
        &scratch.0,
        &[
            ("cat_00000", &first),
            ("cat_00001", &second),
            ("cat_00002", "l\n"),
            ("cat_current", "l\n"),
        ],
    );
}

#[test]
fn messages_do_not_cross_chunks() {
    let scratch = Scratch::new("scribe-file");
    let plan = FilePlan { chunk_bytes: 8, makes_symlink: false, ..plan(&scratch.0) };
    let mut file = File::new(&plan, &context(true));
    file.write(&batch(&["1234", "567", "89", "too long for a chunk"])).expect("to write");
    check(&scratch.0, &[("cat_00000", "1234\n\0\0\x00567\n89\n\0too long for a chunk\n")]);
}

#[test]
fn time_begins_new_files() {
    let scratch = Scratch::new("scribe-file");
    let check = |rotation, from, to, expected: bool| {
        let file = File::new(&FilePlan { rotation, ..plan(&scratch.0) }, &context(true));
        let open = file.open_file("x".into(), Timestamp(from)).expect("a file");
        assert_eq!(file.is_due(&open, Timestamp(to)), expected, "{rotation:?} {from} {to}");
    };
    let (hour, day) = (3600, 86_400);
    check(Rotation::Never, 0, 100 * day, false);
    let hourly = Rotation::Hourly { minute: 15 };
    check(hourly, 10, hour - 1, false);
    check(hourly, 10, hour + 14 * 60, false);
    check(hourly, 10, hour + 15 * 60, true);
    let daily = Rotation::Daily { hour: 1, minute: 15 };
    check(daily, 10, day - 1, false);
    check(daily, 10, day + hour + 14 * 60, false);
    check(daily, 10, day + hour + 15 * 60, true);
    let often = Rotation::Every(std::time::Duration::from_secs(30));
    check(often, 10, 39, false);
    check(often, 10, 40, true);
    let file = File::new(&FilePlan { rotation: hourly, ..plan(&scratch.0) }, &context(true));
    let (name, _) = file.next_name(Timestamp(7 * hour)).expect("a name");
    assert_eq!(name, "cat-1970-01-01_00007");
}

/// A store whose directory is removed creates the directory again and writes to a new file.
#[test]
fn directories_come_back() {
    let scratch = Scratch::new("scribe-file");
    let path = scratch.0.join("in");
    let mut file = File::new(&FilePlan { makes_symlink: false, ..plan(&path) }, &context(true));
    file.write(&batch(&["one"])).expect("to write");
    fs::remove_dir_all(&path).expect("to remove");
    file.write(&batch(&["two"])).expect("to write");
    check(&path, &[("cat_00000", "two\n")]);
    // A batch fails while the directory cannot be created; afterwards a retry writes it once.
    fs::remove_dir_all(&path).expect("to remove");
    fs::write(&path, "in the way").expect("to write");
    let mut again = batch(&["three"]);
    again.id = 5;
    file.write(&again).expect_err("it cannot be made");
    fs::remove_file(&path).expect("to remove");
    file.write(&again).expect("to write");
    check(&path, &[("cat_00000", "three\n")]);
}

#[test]
fn not_each_category_can_be_a_name() {
    let check = |category: &[u8], expected| assert_eq!(is_name(category), expected);
    check(b"a", true);
    check(b"..a", true);
    check("ä \n".as_bytes(), true);
    check(b"\xff", true);
    check(b".", false);
    check(b"..", false);
    check(b"a/b", false);
    check(b"a\0", false);
    check(&[b'a'; 200], true);
    check(&[b'a'; 201], false);
}
