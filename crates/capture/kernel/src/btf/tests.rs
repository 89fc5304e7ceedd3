//! Tests of the reader with files made by hand, with damaged files, and with the running kernel's.

use super::{Btf, BtfError, FieldPlace, ValueForm};
use blkkin_sys::testing::{Random, skip};
use std::sync::Arc;

const FLAG: u32 = 1 << 31;

/// Builder of a BTF file for tests.
struct Builder {
    types: Vec<u8>,
    strings: Vec<u8>,
    /// Offset assigned to the first string, after the strings of the base.
    first_string: u32,
    next_id: u32,
}

impl Builder {
    fn new() -> Builder {
        Builder { types: Vec::new(), strings: vec![0], first_string: 0, next_id: 1 }
    }

    /// Returns the offset of a new string.
    fn name(&mut self, name: &str) -> u32 {
        if name.is_empty() {
            return 0;
        }
        let offset = self.first_string + self.strings.len() as u32;
        self.strings.extend_from_slice(name.as_bytes());
        self.strings.push(0);
        offset
    }

    /// Adds a type and returns its id. `info` is the kind, and `FLAG`.
    fn add(&mut self, name: &str, info: u32, size_or_type: u32, data: &[u32]) -> u32 {
        self.add_entries(name, info, size_or_type, &[data])
    }

    /// Adds a type with entries.
    fn add_entries(&mut self, name: &str, info: u32, size_or_type: u32, data: &[&[u32]]) -> u32 {
        let name = self.name(name);
        let kind = info & !FLAG;
        let count = if matches!(kind, 4 | 5 | 6 | 13 | 15 | 19) { data.len() as u32 } else { 0 };
        let words = [name, kind << 24 | info & FLAG | count, size_or_type];
        for word in words.iter().chain(data.iter().copied().flatten()) {
            self.types.extend_from_slice(&word.to_le_bytes());
        }
        self.next_id += 1;
        self.next_id - 1
    }

    fn finish(&self) -> Vec<u8> {
        let (types, strings) = (self.types.len() as u32, self.strings.len() as u32);
        let mut bytes = vec![0x9f, 0xeb, 1, 0];
        for word in [24, 0, types, types, strings] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(&self.types);
        bytes.extend_from_slice(&self.strings);
        bytes
    }
}

/// Returns a file with each kind, similar to this C:
///
/// ```c
/// struct upid { int nr; void *ns; };
/// struct pid { int count; struct upid numbers[2]; };
/// struct task {
///     const char comm[16];
///     union { unsigned long a; struct { int b; int c; }; };
///     pid_alias pid;
///     struct pid *thread_pid;
///     int low:3, high:5;
///     int tail[];
/// };
/// ```
fn sample() -> Builder {
    let mut file = Builder::new();
    let int = file.add("int", 1, 4, &[1 << 24 | 32]);
    let char = file.add("char", 1, 1, &[8]);
    let long = file.add("unsigned long", 1, 8, &[64]);
    let void_pointer = file.add("", 2, 0, &[]);
    let (nr, ns) = (file.name("nr"), file.name("ns"));
    let upid = file.add_entries("upid", 4, 16, &[&[nr, int, 0], &[ns, void_pointer, 64]]);
    let numbers = file.add("", 3, 0, &[upid, int, 2]);
    let (count, numbers_name) = (file.name("count"), file.name("numbers"));
    let members: [&[u32]; 2] = [&[count, int, 0], &[numbers_name, numbers, 64]];
    let pid = file.add_entries("pid", 4, 40, &members);
    let comm = file.add("", 3, 0, &[char, int, 16]);
    let const_comm = file.add("", 10, comm, &[]);
    let (b, c) = (file.name("b"), file.name("c"));
    let inner = file.add_entries("", 4, 8, &[&[b, int, 0], &[c, int, 32]]);
    let a = file.name("a");
    let union = file.add_entries("", 5, 8, &[&[a, long, 0], &[0, inner, 0]]);
    let alias = file.add("pid_alias", 8, pid, &[]);
    let volatile = file.add("", 9, alias, &[]);
    let pid_pointer = file.add("", 2, pid, &[]);
    let tail = file.add("", 3, 0, &[int, int, 0]);
    let old_bit_field = file.add("int", 1, 4, &[4]);
    let names = ["comm", "pid", "thread_pid", "low", "high", "tail", "old"];
    let [comm_name, pid_name, thread_pid, low, high, tail_name, old] =
        names.map(|name| file.name(name));
    let members: [&[u32]; 8] = [
        &[comm_name, const_comm, 0],
        &[0, union, 128],
        &[pid_name, volatile, 192],
        &[thread_pid, pid_pointer, 512],
        &[low, int, 3 << 24 | 576],
        &[high, int, 5 << 24 | 579],
        &[tail_name, tail, 608],
        &[old, old_bit_field, 600],
    ];
    let task = file.add_entries("task", 4 | FLAG, 76, &members);
    file.add("task_alias", 8, task, &[]);
    file.add("missing", 7, 0, &[]);

    let (on, off) = (file.name("ON"), file.name("OFF"));
    file.add_entries("state", 6 | FLAG, 4, &[&[on, 1], &[off, u32::MAX]]);
    let (big, huge) = (file.name("BIG"), file.name("HUGE"));
    file.add_entries("wide", 19, 8, &[&[big, 1, 2], &[huge, 0, 1 << 31]]);
    let lonely = file.name("LONELY");
    file.add_entries("", 6, 4, &[&[lonely, 7]]);

    let preempt = file.name("preempt");
    let task_pointer = file.add("", 2, task, &[]);
    let probe: [&[u32]; 3] = [&[0, void_pointer], &[preempt, int], &[0, task_pointer]];
    let probe = file.add_entries("", 13, 0, &probe);
    let probe = file.add("", 2, probe, &[]);
    file.add("btf_trace_sched_switch", 8, probe, &[]);
    file.add("btf_trace_broken", 8, int, &[]);

    let const_char = file.add("", 10, char, &[]);
    let text = file.add("", 2, const_char, &[]);
    let restrict = file.add("", 11, text, &[]);
    let tag = file.add("user", 18, char, &[]);
    let tagged = file.add("", 2, tag, &[]);
    let callback = file.add_entries("", 13, int, &[&[0, text], &[0, 0]]);
    let callback = file.add("", 2, callback, &[]);
    let (path, to, call) = (file.name("path"), file.name("to"), file.name("call"));
    let parameters: [&[u32]; 3] = [&[path, restrict], &[to, tagged], &[call, callback]];
    let prototype = file.add_entries("", 13, long, &parameters);
    let function = file.add("do_open", 12, prototype, &[]);
    let variable = file.add("jiffies", 14, long, &[1]);
    file.add_entries(".data", 15, 8, &[&[variable, 0, 8]]);
    file.add("double", 16, 8, &[]);
    file.add("bpf_kfunc", 17, function, &[u32::MAX]);
    file
}

fn parse(bytes: Vec<u8>) -> Btf {
    Btf::parse(bytes).unwrap_or_else(|error| panic!("{error}"))
}

/// Positions of members are those that a compiler gives them, also in anonymous members; paths do
/// not lead through pointers, and bit fields have no position.
#[test]
fn members_have_the_compilers_positions() {
    let btf = parse(sample().finish());
    let check = |structure: &str, path: &str, expected: Result<(u32, u32), &str>| {
        let found = btf.field(structure, path).map_err(|error| error.to_string());
        let expected = expected.map(|place| FieldPlace { offset: place.0, size: place.1 });
        match expected {
            Ok(place) => assert_eq!(found, Ok(place), "{structure}.{path}"),
            Err(part) => {
                let error = found.expect_err(path);
                assert!(error.contains(part), "{structure}.{path}: {error}");
            }
        }
    };
    check("task", "comm", Ok((0, 16)));
    check("task", "a", Ok((16, 8)));
    check("task", "b", Ok((16, 4)));
    check("task", "c", Ok((20, 4)));
    check("task", "pid", Ok((24, 40)));
    check("task", "pid.numbers", Ok((32, 32)));
    check("task", "thread_pid", Ok((64, 8)));
    check("task", "tail", Ok((76, 0)));
    check("task_alias", "c", Ok((20, 4)));
    check("pid_alias", "count", Ok((0, 4)));
    let bit = |member| btf.bit("task", member).ok().map(|place| (place.offset, place.bit));
    assert_eq!((bit("comm"), bit("absent")), (Some((0, 0)), None));
    assert_eq!((bit("low"), bit("high")), (Some((72, 0)), Some((72, 3))));
    check("task", "low", Err("is a bit field"));
    check("task", "old", Err("is a bit field"));
    check(
        "task",
        "thread_pid.count",
        Err("member thread_pid of the kernel's structure task is of"),
    );
    check("task", "pid.numbers.nr", Err("type struct upid [2], which has no members"));
    check("task", "pid.nothing", Err("structure task has no member pid.nothing"));
    check("task", "pid.", Err("no member pid."));
    check("task", "", Err("no member"));
    check("missing", "a", Err("the kernel has no structure missing"));
    check("int", "a", Err("no structure int"));
    assert_eq!(btf.structure_size("task").expect("a size"), 76);
    assert_eq!(btf.structure_size("pid_alias").expect("a size"), 40);
}

/// Tracepoints have the id of their typedef; the data argument of their probes does not count.
#[test]
fn tracepoints_functions_and_values_are_found() {
    let btf = parse(sample().finish());
    let tracepoint = btf.raw_tracepoint("sched_switch").expect("a tracepoint");
    assert_eq!(btf.type_name(tracepoint.type_id), "btf_trace_sched_switch");
    assert_eq!(tracepoint.arguments, 2);
    assert_eq!(btf.raw_tracepoints().collect::<Vec<_>>(), ["sched_switch"]);
    let error = btf.raw_tracepoint("broken").expect_err("no pointer").to_string();
    assert!(error.ends_with("is not a pointer to a tracepoint's function"), "{error}");
    let error = btf.raw_tracepoint("nothing").expect_err("no typedef").to_string();
    assert_eq!(error, "the kernel has no tracepoint nothing");

    let function = btf.function("do_open").expect("a function");
    let parameters = function.parameters.iter();
    let parameters: Vec<String> =
        parameters.map(|one| format!("{}: {}", one.name, one.type_text)).collect();
    let expected = ["path: const char *restrict", "to: char *", "call: int (*)(const char *, ...)"];
    assert_eq!(parameters, expected);
    assert_eq!(btf.functions().collect::<Vec<_>>(), ["do_open"]);
    assert!(btf.function("task").is_none());

    for (enumeration, name, expected) in [
        ("state", "ON", Some(1)),
        ("state", "OFF", Some(-1)),
        ("wide", "BIG", Some((2 << 32) + 1)),
        ("wide", "HUGE", None),
        ("", "LONELY", Some(7)),
        ("", "ON", None),
        ("state", "BIG", None),
        ("task", "comm", None),
    ] {
        assert_eq!(btf.enum_value(enumeration, name), expected, "{enumeration}: {name}");
    }
}

/// The form of a value follows from its type without typedefs and qualifiers. A pointer to constant
/// text in a program's memory is no text of the kernel.
#[test]
fn values_have_forms() {
    let mut file = sample();
    let (int, char, long) = (1, 2, 3);
    let const_char = file.add("", 10, char, &[]);
    let text = file.add("", 2, const_char, &[]);
    let volatile_text = file.add("", 9, text, &[]);
    let user = file.add("user", 18, const_char, &[]);
    let user_text = file.add("", 2, user, &[]);
    let plain_text = file.add("", 2, char, &[]);
    let byte = file.add("u8", 8, char, &[]);
    let const_byte = file.add("", 10, byte, &[]);
    let bytes = file.add("", 2, const_byte, &[]);
    let size = file.add("size_t", 8, long, &[]);
    let unsigned = file.add_entries("", 6, 1, &[]);
    let cycle = file.next_id;
    file.add("cycle", 8, cycle, &[]);
    let btf = parse(file.finish());
    let integer = |bytes, is_signed| ValueForm::Integer { bytes, is_signed };
    let find = |name| btf.find(name, |_| true).expect(name);
    for (type_id, form) in [
        (0, ValueForm::Nothing),
        (int, integer(4, true)),
        (char, integer(1, false)),
        (size, integer(8, false)),
        (find("state"), integer(4, true)),
        (unsigned, integer(1, false)),
        (find("wide"), integer(8, false)),
        (text, ValueForm::Text),
        (volatile_text, ValueForm::Text),
        (user_text, ValueForm::Pointer),
        (plain_text, ValueForm::Pointer),
        (bytes, ValueForm::Pointer),
        (find("pid_alias"), ValueForm::Structure { bytes: 40 }),
        (find("double"), ValueForm::Unknown),
        (find("missing"), ValueForm::Unknown),
        (cycle, ValueForm::Unknown),
    ] {
        assert_eq!(btf.value_form(type_id), form, "{}", btf.type_text(type_id));
    }
    let function = btf.function("do_open").expect("a function");
    let forms: Vec<ValueForm> = function.parameters.iter().map(|one| one.form).collect();
    assert_eq!(forms, [ValueForm::Text, ValueForm::Pointer, ValueForm::Pointer]);
    assert!(function.result == integer(8, false) && !function.is_variadic());
}

/// Arguments of a tracepoint have the names of the function that calls its probes, if that function
/// has the same number of arguments.
#[test]
fn arguments_of_tracepoints_have_names() {
    let names = |btf: &Btf| {
        let parameters = btf.tracepoint_parameters("sched_switch").expect("a tracepoint");
        parameters.into_iter().map(|one| (one.name, one.type_text)).collect::<Vec<_>>()
    };
    let named = |name: &str, type_text: &str| (name.to_owned(), type_text.to_owned());
    let unnamed = [named("preempt", "int"), named("arg1", "struct task *")];
    assert_eq!(names(&parse(sample().finish())), unnamed);
    for (is_complete, expected) in
        [(true, [named("preempt", "int"), named("next", "int")]), (false, unnamed)]
    {
        let mut file = sample();
        let (data, preempt, next) = (file.name("__data"), file.name("preempt"), file.name("next"));
        let parameters: [&[u32]; 3] = [&[data, 4], &[preempt, 1], &[next, 1]];
        let parameters = if is_complete { &parameters[..] } else { &parameters[..2] };
        let prototype = file.add_entries("", 13, 1, parameters);
        file.add("__traceiter_sched_switch", 12, prototype, &[]);
        assert_eq!(names(&parse(file.finish())), expected);
    }
    let btf = parse(sample().finish());
    assert!(btf.tracepoint_parameters("broken").is_err());
    assert!(btf.tracepoint_parameters("nothing").is_err());
}

/// Types are written as in C, whichever way pointers, arrays, functions and qualifiers are nested.
#[test]
fn types_are_written_as_in_c() {
    let mut file = sample();
    let char = 2;
    let mut check_all = Vec::new();
    let mut check = |type_id, text: &str| check_all.push((type_id, text.to_owned()));
    let pointer = file.add("", 2, char, &[]);
    let constant = file.add("", 10, pointer, &[]);
    check(constant, "char *const");
    let double = file.add("", 2, constant, &[]);
    check(double, "char *const *");
    let volatile = file.add("", 9, constant, &[]);
    check(volatile, "char *const volatile");
    let array = file.add("", 3, 0, &[constant, 1, 3]);
    check(array, "char *const[3]");
    let arrays = file.add("", 3, 0, &[array, 1, 2]);
    check(arrays, "char *const[2][3]");
    let to_array = file.add("", 2, arrays, &[]);
    check(to_array, "char *const (*)[2][3]");
    let prototype = file.add_entries("", 13, to_array, &[]);
    let to_function = file.add("", 2, prototype, &[]);
    check(to_function, "char *const (*(*)(void))[2][3]");
    check(0, "void");
    check(4, "void *");
    check(10_000, "?");
    check(10, "struct {…}");
    check(5, "struct upid");
    let btf = parse(file.finish());
    for (type_id, text) in check_all {
        assert_eq!(btf.type_text(type_id), text);
    }
}

/// A type that contains itself ends each query with an error or a short text, and a file of a
/// thousand anonymous members of each other takes no longer than one search of each.
#[test]
fn cycles_are_errors() {
    let mut file = Builder::new();
    let (member, other) = (file.name("m"), file.name("o"));
    // A typedef of itself, an array of itself, a function that takes itself, and a structure in
    // itself.
    let typedef = file.add("loop", 8, 1, &[]);
    let array = file.add("", 3, 0, &[2, 2, 2]);
    let prototype = file.add_entries("", 13, 3, &[&[0, 3], &[0, 3], &[0, 3]]);
    let members: [&[u32]; 3] = [&[member, typedef, 0], &[other, array, 0], &[0, 4, 8]];
    file.add_entries("s", 4, 8, &members);
    let entries: Vec<[u32; 3]> = (0..1000).map(|index| [0, 5 + index, 0]).collect();
    let entries: Vec<&[u32]> = entries.iter().map(|entry| &entry[..]).collect();
    for index in 0..1000 {
        file.add_entries(if index == 0 { "wide" } else { "" }, 4, 8, &entries);
    }
    let btf = parse(file.finish());
    let error = |result: Result<FieldPlace, BtfError>| result.expect_err("a cycle").to_string();
    assert!(error(btf.field("s", "m")).contains("type 1 contains itself"));
    // The number of elements overflows first.
    assert!(error(btf.field("s", "o")).contains("type 2 is not a type with a size"));
    assert!(error(btf.field("s", "o.m")).contains("has no members"));
    assert!(error(btf.field("s", "x")).contains("no member x"));
    assert!(error(btf.field("loop", "x")).contains("type 1 contains itself"));
    assert!(error(btf.field("wide", "x")).contains("no member x"));
    for type_id in [typedef, array, prototype] {
        let text = btf.type_text(type_id);
        assert!(text.len() <= 256 + "…".len() && text.contains('…') || text == "loop", "{text}");
    }
}

/// Types of a module continue the ids and strings of the kernel's.
#[test]
fn types_of_modules_continue_those_of_the_kernel() {
    let base = Arc::new(parse(sample().finish()));
    let mut file = Builder::new();
    file.next_id = base.end_id();
    file.first_string = sample().strings.len() as u32;
    file.strings.clear();
    let pid = file.name("pid");
    let task = base.find("task", |_| true).expect("a structure");
    file.add_entries("device", 4, 80, &[&[pid, task, 32]]);
    let mut bytes = file.finish();
    let module = Btf::parse_split(base.clone(), bytes.clone()).expect("types of a module");
    assert_eq!(module.field("device", "pid.c").expect("a place").offset, 24);
    assert_eq!(module.field("task", "c").expect("a place").offset, 20);
    assert_eq!(module.structure_size("device").expect("a size"), 80);
    assert_eq!(module.raw_tracepoints().count(), 0);
    assert_eq!(module.raw_tracepoint("sched_switch").expect("of the kernel").arguments, 2);
    assert!(Btf::parse_split(Arc::new(module), bytes.clone()).is_err());
    assert!(Btf::parse(bytes.clone()).is_err());
    // The last type of the module refers to itself at most.
    let reference = 24 + 12 + 4;
    bytes[reference..reference + 4].copy_from_slice(&(base.end_id() + 1).to_le_bytes());
    let error = Btf::parse_split(base, bytes).expect_err("a type too many").to_string();
    assert!(error.starts_with("BTF, offset 40: there is no type"), "{error}");
}

/// Errors name the offset and what was expected there.
#[test]
fn errors_name_the_place() {
    let good = {
        let mut file = Builder::new();
        file.add("int", 1, 4, &[32]);
        file.add("t", 8, 1, &[]);
        file.finish()
    };
    let check = |offset: usize, value: u32, expected: &str| {
        let mut bytes = good.clone();
        bytes[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
        assert_eq!(Btf::parse(bytes).expect_err(expected).to_string(), expected);
    };
    check(0, 0x1_9feb, "BTF, offset 0: expected types of a little-endian machine");
    check(0, 0, "BTF, offset 0: expected the magic number 0xEB9F");
    check(0, 0x2_eb9f, "BTF, offset 2: expected format version 1");
    check(4, 8, "BTF, offset 4: expected a header's length of at least 24 and within the file");
    check(8, u32::MAX, "BTF, offset 8: expected offset and length of types within the file");
    check(12, 1000, "BTF, offset 8: expected offset and length of types within the file");
    check(16, 1000, "BTF, offset 16: expected offset and length of strings within the file");
    check(20, 6, "BTF, offset 57: expected NUL at the end of the strings");
    check(12, 20, "BTF, offset 40: expected the 12 bytes of a type");
    check(24, 100, "BTF, offset 24: expected an offset within the strings");
    check(
        28,
        20 << 24,
        "BTF, offset 24: kind 20 of a type is unknown to this release, which knows \
           kinds 1 to 19",
    );
    check(28, 4 << 24 | 5, "BTF, offset 36: expected entries of a type, as many as its info says");
    check(
        28,
        1 << 24 | 1 << 20,
        "BTF, offset 28: expected zeros in bits 16 to 23, 29 and 30 of a \
           type's info",
    );
    check(48, 3, "BTF, offset 48: there is no type 3");
    check(52, 0xff, "BTF, offset 52: expected an empty string, at the start of the strings");
    check(52, 0xff00, "BTF, offset 53: expected UTF-8");
    let mut file = Builder::new();
    file.add(&"n".repeat(1025), 16, 4, &[]);
    let error = Btf::parse(file.finish()).expect_err("a long name").to_string();
    assert_eq!(error, "BTF: a name exceeds 1024 bytes");
}

/// Uses all queries with all names of a file.
fn exercise(btf: &Btf) {
    let mut names = vec!["", "m"];
    for type_id in 0..=btf.end_id() {
        assert!(btf.type_text(type_id).len() < 300);
        names.push(btf.type_name(type_id));
    }
    names.truncate(40);
    for name in &names {
        let _ = (btf.structure_size(name), btf.raw_tracepoint(name), btf.function(name));
        let _ = btf.tracepoint_parameters(name);
        for path in &names {
            let _ = (btf.field(name, path), btf.enum_value(name, path));
        }
        let _ = btf.field(name, "pid.numbers.nr");
    }
    let _ = (btf.functions().count(), btf.raw_tracepoints().count());
}

/// A file that is cut off at any byte is refused.
#[test]
fn cut_off_files_are_refused() {
    let bytes = sample().finish();
    for end in 0..bytes.len() {
        assert!(Btf::parse(bytes[..end].to_vec()).is_err(), "{end}");
    }
}

/// Random changes of bytes lead to errors or to other types, never to a panic or endless work.
#[test]
fn random_bytes_do_no_harm() {
    let bytes = sample().finish();
    let seed = std::env::var("TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let mut random = Random::new(seed.unwrap_or(1));
    let mut sound = 0;
    for _ in 0..300 {
        let mut bytes = bytes.clone();
        for _ in 0..=random.below(4) {
            let place = 24 + random.below(bytes.len() - 24);
            bytes[place] = random.next() as u8;
        }
        if let Ok(btf) = Btf::parse(bytes) {
            exercise(&btf);
            sound += 1;
        }
    }
    assert!(sound > 30, "{sound}");
    exercise(&parse(sample().finish()));
}

/// The running kernel's file has the structures, tracepoints and
/// functions that every kernel has.
#[test]
fn the_running_kernels_types_are_read() {
    let btf = match Btf::of_kernel() {
        Ok(btf) => btf,
        Err(error) => return skip("the_running_kernels_types_are_read", &error.to_string()),
    };
    let place = btf.field("task_struct", "tgid").expect("a member");
    assert_eq!(place.size, 4);
    assert_eq!(btf.field("task_struct", "comm").expect("a member").size, 16);
    assert_eq!(btf.field("signal_struct", "live").expect("a member").size, 4);
    assert!(btf.field("task_struct", "signal.live").is_err());
    let (thread, flags) = (btf.field("task_struct", "thread_info"), "thread_info.flags");
    if let Ok(thread) = thread {
        assert_eq!(btf.field("task_struct", flags).expect("a member").offset, thread.offset);
    }
    assert!(btf.structure_size("task_struct").expect("a size") > 1000);
    assert_eq!(btf.raw_tracepoint("sched_switch").expect("a tracepoint").arguments, 4);
    assert_eq!(btf.raw_tracepoint("sys_enter").expect("a tracepoint").arguments, 2);
    assert!(btf.raw_tracepoints().any(|name| name == "sched_process_fork"));
    let function = btf.function("vfs_read").expect("a function");
    let texts: Vec<&str> = function.parameters.iter().map(|one| &*one.type_text).collect();
    assert_eq!(texts[0], "struct file *");
    assert_eq!(function.parameters[1].name, "buf");
    assert!(btf.functions().count() > 1000);
    assert_eq!(btf.enum_value("bpf_map_type", "BPF_MAP_TYPE_RINGBUF"), Some(27));
    assert!(btf.enum_value("", "BPF_F_NO_PREALLOC").is_some());
    for type_id in 1..btf.end_id() {
        assert!(!btf.type_text(type_id).is_empty());
    }
}
