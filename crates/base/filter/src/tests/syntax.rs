//! Tests of the parsed tree, which is shown as canonical text or in prefix notation.

use super::parse;
use crate::tree::{Expr, Node, Type};
use crate::{Filter, Operand, OperandKind, PseudoField, Severity, Step};

/// Formats a tree in prefix notation.
fn tree(node: &Node, operands: &[Operand]) -> String {
    let list = |symbol: &str, children: &[&Node]| {
        let children: Vec<String> = children.iter().map(|child| tree(child, operands)).collect();
        format!("({symbol} {})", children.join(" "))
    };
    match &node.expr {
        Expr::Uint(number) => number.to_string(),
        Expr::Int(number) => number.to_string(),
        Expr::Float(number) => format!("{number:?}"),
        Expr::Str(bytes) => format!("{:?}", String::from_utf8_lossy(bytes)),
        Expr::Glob(glob) => {
            let pieces: Vec<_> = glob.pieces().map(String::from_utf8_lossy).collect();
            format!("glob{pieces:?}")
        }
        Expr::Severity(level) => format!("level:{}", level.number()),
        Expr::Operand(index) => operands[*index].to_string(),
        Expr::Has(index) => format!("(has {})", operands[*index]),
        Expr::Not(child) => list("!", &[child]),
        Expr::Negate(child) => list("-", &[child]),
        Expr::BitNot(child) => list("~", &[child]),
        Expr::All(children) => list("&&", &children.iter().collect::<Vec<_>>()),
        Expr::Any(children) => list("||", &children.iter().collect::<Vec<_>>()),
        Expr::Compare(op, left, right) => list(op.symbol(), &[left, right]),
        Expr::Binary(op, left, right) => list(op.symbol(), &[left, right]),
    }
}

#[track_caller]
fn check(text: &str, expected: &str) {
    let filter = parse(text);
    assert_eq!(tree(filter.root(), filter.operands()), expected, "{text}");
}

#[test]
fn names_in_quotes() {
    check(r#"a."b" == 1"#, "(== a.b 1)");
    check(
        r#"has(tag."user-agent"."0") && tag."a\"b""#,
        r#"(&& (has tag."user-agent"."0") tag."a\"b")"#,
    );
    let canonical = parse(r#"has(tag."é/\*\n")"#).to_string();
    assert_eq!(canonical, r#"has(tag."é/\*\n")"#);
    assert_eq!(parse(&canonical).to_string(), canonical);
    for wrong in [r#"has(tag."a*b")"#, r#"has("tag")"#, r#"has(tag."\xff")"#] {
        assert!(Filter::parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn precedence() {
    check("a || b && c", "(|| a (&& b c))");
    check("a && b || c", "(|| (&& a b) c)");
    check("a && b == c", "(&& a (== b c))");
    check("a == b < c", "(== a (< b c))");
    check("a < b == c", "(== (< a b) c)");
    check("a | b < c", "(< (| a b) c)");
    check("a & 4 == 4", "(== (& a 4) 4)");
    check("a | b ^ c & d", "(| a (^ b (& c d)))");
    check("a & b << c", "(& a (<< b c))");
    check("a << b + c", "(<< a (+ b c))");
    check("a + b * c", "(+ a (* b c))");
    check("a * b + c", "(+ (* a b) c)");
    check("-a * b", "(* (- a) b)");
    check("!a == b", "(== (! a) b)");
    check("~a & b", "(& (~ a) b)");
    check("!a && !b", "(&& (! a) (! b))");
    check("(a || b) && c", "(&& (|| a b) c)");
    check("(a + b) * c", "(* (+ a b) c)");
}

#[test]
fn associativity() {
    check("a - b - c", "(- (- a b) c)");
    check("a - (b - c)", "(- a (- b c))");
    check("a / b * c % d", "(% (* (/ a b) c) d)");
    check("a << b >> c", "(>> (<< a b) c)");
    check("a == b != c", "(!= (== a b) c)");
    check("a < b <= c > d >= e", "(>= (> (<= (< a b) c) d) e)");
    check("a && b && c", "(&& a b c)");
    check("(a && b) && c", "(&& a b c)");
    check("a && (b && c)", "(&& a (&& b c))");
    check("a || b || c || d", "(|| a b c d)");
}

#[test]
fn signs() {
    check("-1", "-1");
    check("- 1 == x", "(== -1 x)");
    check("-(1)", "-1");
    check("--1", "1");
    check("-0", "0");
    check("-1.5", "-1.5");
    check("+a", "a");
    check("+-+-a", "(- (- a))");
    check("!!a", "(! (! a))");
    check("a - -1", "(- a -1)");
    check("a--b", "(- a (- b))");
    check("-9223372036854775808", "-9223372036854775808");
    check("--9223372036854775808", "9223372036854775808");
}

#[test]
fn numbers() {
    check("18446744073709551615", "18446744073709551615");
    check("0", "0");
    check("0x1F", "31");
    check("0XfF", "255");
    check("0b101", "5");
    check("017", "15");
    check("10UL + 1llu + 0x1u", "(+ (+ 10 1) 1)");
    check("1.5", "1.5");
    check(".5", "0.5");
    check("5.", "5.0");
    check("1e3", "1000.0");
    check("1.5E-3f", "0.0015");
    check("17.34e9", "17340000000.0");
    check("0x1p3", "8.0");
    check("0x1.8p-1", "0.75");
    check("0x.8", "0.5");
    check("0x1p-1074", "5e-324");
    check("'a'", "97");
    check("'\\n'", "10");
    check("'*'", "42");
    check("'\\''", "39");
    check("L'a'", "97");
}

#[test]
fn durations() {
    check("5ns", "5");
    check("5us", "5000");
    check("5ms", "5000000");
    check("2s", "2000000000");
    check("3m", "180000000000");
    check("1h", "3600000000000");
    check("0s", "0");
    check("1.5ms", "1500000");
    check("1.1s", "1100000000");
    check("1e3us", "1000000");
    check(".25us", "250");
    check("-5ms", "-5000000");
}

#[test]
fn strings() {
    check(r#"a == """#, r#"(== a "")"#);
    check(r#"a == "x y""#, r#"(== a "x y")"#);
    check(r#"a == "\n\t\\\"\'\?""#, r#"(== a "\n\t\\\"'?")"#);
    check(r#"a == "\x41\101\x7a1""#, r#"(== a "AAz1")"#);
    check(r#"a == "a\*b""#, r#"(== a "a*b")"#);
    check(r#"a == "a*b""#, r#"(== a glob["a", "b"])"#);
    check(r#"a == "**a***b\**""#, r#"(== a glob["", "a", "b*", ""])"#);
    check(r#"a != "*""#, r#"(!= a glob["", ""])"#);
    check(r#""f*" == a"#, r#"(== glob["f", ""] a)"#);
    check(r#"a == L"x""#, r#"(== a "x")"#);
    check(r#"a < "x""#, r#"(< a "x")"#);
    check("a == \"grün\"", "(== a \"grün\")");
}

#[test]
fn space_and_comments() {
    check(" a\n==\t1 ", "(== a 1)");
    check("a /* x == 2 && */ == 1 // the end", "(== a 1)");
    check("// first\na", "a");
    check("a/b", "(/ a b)");
}

#[test]
fn fields() {
    check("msg.hdr[3].len", "msg.hdr[3].len");
    check("msg . hdr [ 0x3 ] . len", "msg.hdr[3].len");
    check("msg->hdr[3].len", "msg.hdr[3].len");
    check("seq[0][017]", "seq[0][15]");
    check("_x1", "_x1");
    check("größe", "größe");
    check("$ctx.vpid", "$ctx.vpid");
    check("$ctx.regs[2].low", "$ctx.regs[2].low");
    check("$app.prov:type", "$app.prov:type");
    check("$env.hostname", "$env.hostname");
    check("$packet.cpu_id", "$packet.cpu_id");
    check("$event.time", "$event.time");
    check("has(a.b[1])", "(has a.b[1])");
    check("has($ctx.vpid) && !has(has)", "(&& (has $ctx.vpid) (! (has has)))");
    check("$ctx.perf:cpu:branch-misses - 1", "(- $ctx.perf:cpu:branch-misses 1)");
    check("$ctx.perf:cpu:cycles-1", "(- $ctx.perf:cpu:cycles 1)");
    check("perf-a", "(- perf a)");
    check("and == not", "(== and not)");
    check("L == 1", "(== L 1)");
}

#[test]
fn levels() {
    check("severity <= warning", "(<= severity level:4)");
    check("emergency >= $event.severity", "(>= level:0 $event.severity)");
    check("severity == DEBUG", "(== severity level:14)");
    check("(severity) != (crit)", "(!= severity level:2)");
    check("severity <= 4", "(<= severity 4)");
    check("severity == other", "(== severity other)");
    check("$ctx.severity == error", "(== $ctx.severity error)");
    check("warning == 1", "(== warning 1)");
    for number in 0..15 {
        let level = Severity::from_number(number).expect("there are fifteen levels");
        assert_eq!(Severity::from_word(level.word()), Some(level));
        assert_eq!(level.number(), number);
    }
    assert_eq!(Severity::from_number(15), None);
}

#[test]
fn operands_are_listed_once() {
    let filter = parse("a.b[1] == $ctx.x && a . b [01] > 2 && severity < err && $event.name == x");
    let names: Vec<String> = filter.operands().iter().map(ToString::to_string).collect();
    // The word `err` is a severity level, not an operand.
    assert_eq!(names, ["a.b[1]", "$ctx.x", "severity", "$event.name", "x"]);

    let first = &filter.operands()[0];
    assert_eq!(first.kind, OperandKind::Payload);
    assert_eq!(first.path, [Step::Name("a".into()), Step::Name("b".into()), Step::Index(1)]);
    assert_eq!(&filter.text()[first.span.start..first.span.end], "a.b[1]");
    assert_eq!(filter.operands()[2].pseudo(), Some(PseudoField::Severity));
    assert_eq!(filter.operands()[3].kind, OperandKind::Pseudo(PseudoField::Name));
    assert_eq!(filter.operands()[4].pseudo(), None);
}

#[test]
fn types() {
    let check = |text: &str, expected| assert_eq!(parse(text).root().ty, expected, "{text}");
    check("1", Type::Int);
    check("1.5", Type::Float);
    check("a", Type::Unknown);
    check("time", Type::Unknown);
    check("$event.time", Type::Int);
    check("$event.severity", Type::Unknown);
    check("a == 1", Type::Bool);
    check("has(a)", Type::Bool);
    check("!a", Type::Bool);
    check("-a", Type::Unknown);
    check("-(a == 1)", Type::Int);
    check("a + 1", Type::Unknown);
    check("a + 1.0", Type::Float);
    check("1 + (a < b)", Type::Int);
    check("a & b", Type::Int);
    check("a % b", Type::Int);
}

#[test]
fn spans_cover_what_was_written() {
    let filter = parse("  (a + 1) * 2 == b.c[3] ");
    let text = |node: &Node| filter.text()[node.span.start..node.span.end].to_string();
    assert_eq!(text(filter.root()), "(a + 1) * 2 == b.c[3]");
    let Expr::Compare(_, left, right) = &filter.root().expr else { panic!("a comparison") };
    assert_eq!((text(left), text(right)), ("(a + 1) * 2".into(), "b.c[3]".into()));
    let Expr::Binary(_, sum, _) = &left.expr else { panic!("a product") };
    assert_eq!(text(sum), "(a + 1)");
}

#[test]
fn canonical_text() {
    #[track_caller]
    fn check(text: &str, expected: &str) {
        let filter = parse(text);
        assert_eq!(filter.to_string(), expected);
        assert_eq!(parse(expected).root(), filter.root());
    }
    check("((a)&&((b||c)))", "a && (b || c)");
    check("(a&4)==4", "a & 4 == 4");
    check("a&(4==4)", "a & (4 == 4)");
    check("a-(b-c)-d", "a - (b - c) - d");
    check("a&&(b&&c)", "a && (b && c)");
    check("!(a==b)", "!(a == b)");
    check("- -x", "--x");
    check("-(x+1)", "-(x + 1)");
    check("0x10+5ms", "16 + 5000000");
    check("1e300*1.0", "1e300 * 1.0");
    check("severity<=WARNING", "severity <= warning");
    check(r#"a=="x\x00\*\"\377é*""#, r#"a == "x\x00\*\"\xffé*""#);
    check("has( $app.a:b )", "has($app.a:b)");
}

/// The filters in lttng-enable-event(1), and filters from LTTng's users, are valid. Their canonical
/// texts parse to the same trees.
#[test]
fn accepts_what_lttng_accepts() {
    for text in [
        r#"msg_id == 23 && size >= 2048"#,
        r#"$ctx.procname == "lttng*" && (!flag || poel < 34)"#,
        r#"$app.my_provider:my_context == 17.34e9 || some_enum >= 14"#,
        r#"$ctx.cpu_id == 2 && filename != "*.log""#,
        r#"eax_reg & 0xff7 == 0x240 && x[4] >> 12 <= 0x1234"#,
        r#"$ctx.preemptible && comm != "systemd*""#,
        r#"my_field == my_other_field"#,
        r#"msg.user[1].data[2][17]"#,
        r#"$ctx.perf:cpu:stalled-cycles-frontend > 10"#,
        r#"my_field == "\*star\\""#,
        r#""a" == "b*""#,
        r#"++--~!+x"#,
        r#"1 >= (1 >= (1 >= 1))"#,
        r#"!a.b.c"#,
        r#"1.0 || field || 1.0f"#,
        r#"x << -1"#,
        r#"a->b.c"#,
    ] {
        let filter = parse(text);
        assert_eq!(parse(&filter.to_string()).root(), filter.root(), "{text}");
    }
}

#[test]
fn long_chains_are_flat() {
    let text = vec!["a == 1"; 6000].join(" || ");
    let filter = Filter::parse(&text).expect("a chain is not deep");
    let Expr::Any(children) = &filter.root().expr else { panic!("a chain") };
    assert_eq!(children.len(), 6000);
    assert_eq!(filter.to_string(), text);
}

/// Each filter in the table of examples in docs/filter.md is valid, and the page shows the error of
/// `cpu = 3` exactly as it is rendered.
#[test]
fn examples_of_the_manual() {
    let page = include_str!("../../../../../docs/filter.md");
    let (_, examples) = page.split_once("## Examples").expect("a section of examples");
    let (examples, _) = examples.split_once("## ").expect("a section after it");
    let mut count = 0;
    for row in examples.lines().filter(|line| line.starts_with("| ")) {
        for example in row.split('`').skip(1).step_by(2) {
            parse(&example.replace("\\|", "|"));
            count += 1;
        }
    }
    assert!(count > 10, "only {count} examples found");
    let error = Filter::parse("cpu = 3").expect_err("it is not a filter").render(false);
    assert!(page.contains(&error));
}
