//! Tests of the parser with files of Linux 6.18, and with damaged ones.

use super::{EventFormat, FieldKind};

/// Fields that all events have.
const COMMON: &str = "\
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

";

const SCHED_SWITCH: &str = "\
\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;
\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;
\tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;
\tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;
\tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;
\tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;
\tfield:int next_prio;\toffset:60;\tsize:4;\tsigned:1;

print fmt: \"prev_comm=%s prev_pid=%d\", REC->prev_comm, REC->prev_pid
";

const SCHED_PROCESS_FORK: &str = "\
\tfield:__data_loc char[] parent_comm;\toffset:8;\tsize:4;\tsigned:0;
\tfield:pid_t parent_pid;\toffset:12;\tsize:4;\tsigned:1;
\tfield:__data_loc char[] child_comm;\toffset:16;\tsize:4;\tsigned:0;
\tfield:pid_t child_pid;\toffset:20;\tsize:4;\tsigned:1;

print fmt: \"comm=%s pid=%d\", __get_str(parent_comm), REC->parent_pid
";

const SYS_ENTER_OPENAT: &str = "\
\tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;
\tfield:int dfd;\toffset:16;\tsize:8;\tsigned:0;
\tfield:const char * filename;\toffset:24;\tsize:8;\tsigned:0;
\tfield:int flags;\toffset:32;\tsize:8;\tsigned:0;
\tfield:umode_t mode;\toffset:40;\tsize:8;\tsigned:0;

print fmt: \"dfd: 0x%08lx\", ((unsigned long)(REC->dfd))
";

const BLOCK_RQ_ISSUE: &str = "\
\tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;
\tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;
\tfield:unsigned int nr_sector;\toffset:24;\tsize:4;\tsigned:0;
\tfield:unsigned int bytes;\toffset:28;\tsize:4;\tsigned:0;
\tfield:unsigned short ioprio;\toffset:32;\tsize:2;\tsigned:0;
\tfield:char rwbs[10];\toffset:34;\tsize:10;\tsigned:0;
\tfield:char comm[16];\toffset:44;\tsize:16;\tsigned:0;
\tfield:__data_loc char[] cmd;\toffset:60;\tsize:4;\tsigned:0;

print fmt: \"%d,%d %s\", ((unsigned int) ((REC->dev) >> 20)), REC->rwbs
";

/// Returns the fields as text: offset, size, signedness, type, name and form.
fn fields(format: &EventFormat) -> Vec<String> {
    let line = |field: &super::FormatField| {
        let sign = if field.is_signed { "s" } else { "u" };
        let kind = match field.kind {
            FieldKind::Plain => String::new(),
            kind => format!(" {kind:?}"),
        };
        let (offset, size) = (field.offset, field.size);
        format!("{offset}+{size}{sign} {}: {}{kind}", field.name, field.type_text)
    };
    format.own_fields().iter().map(line).collect()
}

fn check(name: &str, body: &str, expected: &[&str]) -> EventFormat {
    let text = format!("name: {name}\nID: 372\n{COMMON}{body}");
    let format = EventFormat::parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!((&*format.name, format.id, format.common_field_count), (name, 372, 4));
    assert_eq!(fields(&format), expected);
    format
}

/// Formats of the kernel are read field by field, with the text for printing.
#[test]
fn formats_of_the_kernel_are_read() {
    let format = check(
        "sched_switch",
        SCHED_SWITCH,
        &[
            "8+16u prev_comm: char Array(16)",
            "24+4s prev_pid: pid_t",
            "28+4s prev_prio: int",
            "32+8s prev_state: long",
            "40+16u next_comm: char Array(16)",
            "56+4s next_pid: pid_t",
            "60+4s next_prio: int",
        ],
    );
    let print = "\"prev_comm=%s prev_pid=%d\", REC->prev_comm, REC->prev_pid";
    assert_eq!(format.print, print);
    assert_eq!(format.fields[3].name, "common_pid");
    let expected = [
        "8+4u parent_comm: char DynamicArray",
        "12+4s parent_pid: pid_t",
        "16+4u child_comm: char DynamicArray",
        "20+4s child_pid: pid_t",
    ];
    check("sched_process_fork", SCHED_PROCESS_FORK, &expected);
    let expected = [
        "8+4s __syscall_nr: int",
        "16+8u dfd: int",
        "24+8u filename: const char *",
        "32+8u flags: int",
        "40+8u mode: umode_t",
    ];
    check("sys_enter_openat", SYS_ENTER_OPENAT, &expected);
    check(
        "block_rq_issue",
        BLOCK_RQ_ISSUE,
        &[
            "8+4u dev: dev_t",
            "16+8u sector: sector_t",
            "24+4u nr_sector: unsigned int",
            "28+4u bytes: unsigned int",
            "32+2u ioprio: unsigned short",
            "34+10u rwbs: char Array(10)",
            "44+16u comm: char Array(16)",
            "60+4u cmd: char DynamicArray",
        ],
    );
}

/// All forms of declarations are understood; what is no declaration is refused.
#[test]
fn declarations_have_type_and_name() {
    let check_one = |declaration: &str, size: u32, expected: Option<&str>| {
        let field = format!("\tfield:{declaration};\toffset:8;\tsize:{size};\tsigned:0;\n");
        let text = format!("name: e\nID: 1\n{COMMON}{field}\nprint fmt: \"\"\n");
        let found = EventFormat::parse(&text).ok().map(|format| fields(&format).join("|"));
        let expected = expected.map(|expected| format!("8+{size}u {expected}"));
        assert_eq!(found, expected, "{declaration}");
    };
    check_one("struct file_lock * fl", 8, Some("fl: struct file_lock *"));
    check_one("const struct attr *const attr", 8, Some("attr: const struct attr *const"));
    check_one("char *name", 8, Some("name: char *"));
    check_one("unsigned long args[]", 0, Some("args: unsigned long FlexibleArray"));
    check_one("unsigned long args[6]", 48, Some("args: unsigned long Array(6)"));
    check_one("char comm[TASK_COMM_LEN]", 16, Some("comm: char Array(16)"));
    check_one("u32 words[COUNT * 2]", 16, Some("words: u32 Array(4)"));
    check_one("u8 grid[4][8]", 32, Some("grid: u8 Array(32)"));
    check_one("__data_loc unsigned int[] lengths", 4, Some("lengths: unsigned int DynamicArray"));
    check_one("__data_loc cpumask_t mask", 4, Some("mask: cpumask_t DynamicArray"));
    check_one("__rel_loc char[] text", 4, Some("text: char RelativeDynamicArray"));
    check_one("void (*done)(int)", 8, Some("done: void (*done)(int)"));
    check_one("struct odd things[COUNT]", 16, None);
    check_one("u8 many[4294967295][4294967295][9]", 16, Some("many: u8 Array(16)"));
    for wrong in ["", "int", "int 9", "*", "int a b!", "__data_loc x", "int [4]", "é", "(*", "[]"]
    {
        check_one(wrong, 4, None);
    }
}

/// Errors name the line and what was expected there.
#[test]
fn errors_name_the_line() {
    let good = format!("name: sched_switch\nID: 372\n{COMMON}{SCHED_SWITCH}");
    let check = |from: &str, to: &str, expected: &str| {
        let text = good.replacen(from, to, 1);
        assert_ne!(text, good);
        assert_eq!(EventFormat::parse(&text).expect_err(expected).to_string(), expected);
    };
    let name = "line 1: expected `name: ` and the name of the event, found ";
    check("name: sched_switch", "name: ", &format!("{name}\"name:\""));
    check("name: ", "Name: ", &format!("{name}\"Name: sched_switch\""));
    let id = "line 2: expected `ID: ` and the number of the event, found ";
    check("ID: 372", "ID: x", &format!("{id}\"x\""));
    check("ID: 372", "ID: 99999999999", &format!("{id}\"99999999999\""));
    check("format:", "Format:", "line 3: expected `format:`, found \"Format:\"");
    check(
        "offset:0;",
        "",
        "line 4: expected `offset:` and a number of bytes after the field's \
           declaration, found \"size:2\"",
    );
    check(
        "size:2;",
        "size:-2;",
        "line 4: expected `size:` and a number of bytes after the field's \
           offset, found \"size:-2\"",
    );
    check(
        "signed:1;",
        "",
        "line 7: expected `signed:0` or `signed:1` after the field's size, found \
           \"\"",
    );
    check(
        "int common_pid",
        "common_pid",
        "line 7: expected a type and a name, as in C, found \
           \"common_pid\"",
    );
    check(
        "\tfield:pid_t",
        "\tpid_t",
        "line 10: expected `field:`, an empty line or `print fmt: `, \
           found \"pid_t prev_pid;\\toffset:24;\\tsize:4;\\tsigned:1;\"",
    );
    check(
        "print fmt",
        "printf",
        "line 17: expected `field:`, an empty line or `print fmt: `, found \
           \"printf: \\\"prev_comm=%s prev_pid=%d\\\", REC->prev_comm, REC->prev_pi\"",
    );
    let many = "\tfield:int a;\toffset:0;\tsize:4;\tsigned:1;\n".repeat(1025);
    let text = format!("name: e\nID: 1\nformat:\n{many}\nprint fmt: \"\"\n");
    let error = EventFormat::parse(&text).expect_err("too many fields");
    assert!(error.to_string().starts_with("line 1028: expected at most 1,024 fields"), "{error}");
    let error = EventFormat::parse(&"x".repeat(300_000)).expect_err("too long");
    assert_eq!(error.expected, "at most 256 KiB of text");
    assert_eq!(error.found.len(), 64);
}

/// A text that is cut off before its last line is refused.
#[test]
fn cut_off_formats_are_refused() {
    let text = format!("name: sched_switch\nID: 372\n{COMMON}{SCHED_SWITCH}");
    let last = text.find("print fmt: ").expect("the last line");
    for end in 0..last + "print fmt:".len() {
        assert!(EventFormat::parse(&text[..end]).is_err(), "{}", &text[..end]);
    }
}
