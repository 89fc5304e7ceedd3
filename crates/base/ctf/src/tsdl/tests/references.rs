//! Tests of name lookup: of types in lexical scopes, and of the fields on which lengths and tags
//! depend.

use super::{TRACE, located, parse_and_write, payload, show};

const U8: &str = "typealias integer { size = 8; } := u8;";

/// Checks the payload's fields, after the declaration of `u8` and the TSDL text `before`.
#[track_caller]
fn check(before: &str, fields: &str, expected: &str) {
    let found = payload(&format!("{U8} {before}"), &format!("struct {{ {fields} }}")).unwrap();
    assert_eq!(found, format!("{{{expected}}}"));
}

/// Checks an error without its position.
#[track_caller]
fn check_message(before: &str, fields: &str, expected: &str) {
    let error = payload(&format!("{U8} {before}"), &format!("struct {{ {fields} }}")).unwrap_err();
    assert_eq!(located(error).split_once(' ').unwrap().1, expected);
}

#[test]
fn aliases() {
    check("typealias u8 := byte;", "byte x;", "x: u8");
    check("typealias u8 := unsigned char;", "unsigned char x;", "x: u8");
    check("typealias u8 := my own type;", "my own type x[2];", "x: [2]u8");
    check("typealias u8 := const char;", "const char x;", "x: u8");
    check("typedef u8 byte;", "byte x;", "x: u8");
    check("u8 typedef byte;", "byte x;", "x: u8");
    check("typedef u8 byte, pair[2];", "pair x; byte y;", "x: [2]u8, y: u8");
    check("typealias struct { u8 a; } := s;", "s x[2];", "x: [2]{a: u8}");
    check("typealias u8[2] := pair;", "pair x[3];", "x: [3][2]u8");
    check("", "typealias u8 := b; typedef b c; c x;", "x: u8");
}

#[test]
fn const_makes_no_difference() {
    check("", "const u8 x; u8 const y;", "x: u8, y: u8");
    check("", "const struct { const string s; } x;", "x: {s: string(Utf8)}");
    check("", "const integer { size = 3; } x;", "x: u3@1");
    check_message("", "const x y;", "unknown type `const x`");
}

#[test]
fn pointers_are_only_names() {
    check("typealias u8 := char *;", "char *x; char * y, *z[2];", "x: u8x, y: u8x, z: [2]u8x");
    check("typealias u8 := void * const *;", "void * const * x;", "x: u8x");
    check("struct s { }; typealias u8 := struct s *;", "struct s *x;", "x: u8x");
    check("typealias struct { u8 a; } := t *;", "t *x;", "x: {a: u8}");
    check_message("", "u8 *x;", "unknown type `u8 *`");
    check_message("", "struct { } *x;", "pointer to a type without a name");
}

#[test]
fn structures_variants_and_enumerations_have_names() {
    check("struct s { u8 a; } align(16);", "struct s x;", "x: {a: u8}@16");
    check("enum e : u8 { A, B };", "enum e x;", "x: u8{A=0 B=1}");
    check("", "enum e : u8 { A } x; enum e y;", "x: u8{A=0}, y: u8{A=0}");
    check("", "struct s { u8 a; }; enum e : u8 { A }; struct s x;", "x: {a: u8}");
    check(
        "variant v { u8 A; };",
        "enum : u8 { A } t, u; variant v <t> x; variant v <u> y;",
        "t: u8{A=0}, u: u8{A=0}, x: <ef.t>(A=0: u8), y: <ef.u>(A=0: u8)",
    );
    check(
        "",
        "enum : u8 { A } t; variant v <t> { u8 A; } x; variant v y;",
        "t: u8{A=0}, x: <ef.t>(A=0: u8), y: <ef.t>(A=0: u8)",
    );
    // The keyword is part of a type's name.
    check(
        "struct s { }; enum s : u8 { A }; typealias u8 := s;",
        "s x; enum s y;",
        "x: u8, y: u8{A=0}",
    );
    check_message(
        "struct ss { };",
        "struct s x;",
        "unknown type `struct s` (did you mean `struct ss`?)",
    );
    check_message("", "struct s { struct s x; } y;", "unknown type `struct s`");
    check_message(
        "variant v { u8 A; };",
        "variant v x;",
        "variant without a tag (write `variant <tag> …` with the name of an enumeration)",
    );
    check_message(
        "typealias variant { u8 A; } := v;",
        "v x;",
        "`v` is a variant without a tag (write `variant name { … };`, and `variant name <tag>` where it is used)",
    );
    check_message(
        "struct s { };",
        "struct s align(8) x;",
        "`align` after the name of a structure (it belongs to the declaration, after `}`)",
    );
}

#[test]
fn types_are_known_in_their_scope_only() {
    check("", "struct { typealias u8 := b; b x; } s; u8 y;", "s: {x: u8}, y: u8");
    check_message("", "struct { typealias u8 := b; b x; } s; b y;", "unknown type `b`");
    check(
        "typealias string := b;",
        "struct { typealias u8 := b; b x; } s; b y;",
        "s: {x: u8}, y: string(Utf8)",
    );
    check_message("typealias u8 := u8;", "u8 x;", "type `u8` is already declared in this scope");
    check_message(
        "struct s { }; struct s { };",
        "u8 x;",
        "type `struct s` is already declared in this scope",
    );
    // The scope of a type declared in a block ends with the block.
    check_message("stream { typealias u8 := b; };", "b x;", "unknown type `b`");
    check("stream { typealias u8 := b; packet.context := struct { b x; }; };", "u8 x;", "x: u8");
    check_message("", "uint8 x;", "unknown type `uint8`");
    // Only a block may use a type before its declaration.
    check_message(
        "typealias later := now; typealias u8 := later;",
        "u8 x;",
        "unknown type `later`",
    );
    let text = format!("event {{ fields := struct {{ b x; }}; }}; {TRACE} typealias string := b;");
    assert!(parse_and_write(&text).is_ok());
}

#[test]
fn lengths_are_found_from_the_inside_out() {
    check("", "u8 n; u8 x[n];", "n: u8, x: [ef.n]u8");
    check("", "u8 n; struct { u8 x[n]; } s;", "n: u8, s: {x: [ef.n]u8}");
    check("", "u8 n; struct { u8 n; u8 x[n]; } s;", "n: u8, s: {n: u8, x: [ef.s.n]u8}");
    // Later declarations do not hide earlier ones.
    check("", "u8 n; struct { u8 x[n]; u8 n; } s;", "n: u8, s: {x: [ef.n]u8, n: u8}");
    check("", "struct { u8 n; } a; u8 x[a.n];", "a: {n: u8}, x: [ef.a.n]u8");
    check(
        "",
        "struct { u8 n; } a; struct { struct { u8 m; } a; u8 x[a.n]; } b;",
        "a: {n: u8}, b: {a: {m: u8}, x: [ef.a.n]u8}",
    );
    check("", "enum : u8 { A } n; u8 x[n];", "n: u8{A=0}, x: [ef.n]u8");
    check(
        "",
        "u8 n; struct { u8 m; u8 x[n][m]; } s[n];",
        "n: u8, s: [ef.n]{m: u8, x: [ef.n][ef.s.m]u8}",
    );
    check("", "struct { u8 n; } s[2]; u8 x[s.n];", "s: [2]{n: u8}, x: [ef.s.n]u8");
}

#[test]
fn lengths_pass_through_variants() {
    let variant = "enum : u8 { A, B } t; variant <t> { struct { u8 n; u8 x[n]; } A; \
                   struct { u8 m; u8 n; u8 x[n]; } B; } v;";
    let expected = "t: u8{A=0 B=1}, v: <ef.t>(A=0: {n: u8, x: [ef.v.n]u8}, \
                    B=1: {m: u8, n: u8, x: [ef.v.n]u8})";
    check("", variant, expected);
    check("", &format!("{variant} u8 y[v.A.n];"), &format!("{expected}, y: [ef.v.n]u8"));
    check("", &format!("{variant} u8 y[v.B.m];"), &format!("{expected}, y: [ef.v.m]u8"));
    check_message("", &format!("{variant} u8 y[v.n];"), "length `v.n` is no field before this one");
}

#[test]
fn names_match_with_and_without_underscore() {
    check("", "u8 _n; u8 _x[_n];", "n: u8, x: [ef.n]u8");
    check("", "u8 _n; u8 x[n];", "n: u8, x: [ef.n]u8");
    check("", "u8 n; u8 x[_n];", "n: u8, x: [ef.n]u8");
    check("", "u8 __x_length; u8 _x[ __x_length ];", "_x_length: u8, x: [ef._x_length]u8");
    check("", "u8 n, _n; u8 x[n], y[_n];", "n: u8, _n: u8, x: [ef.n]u8, y: [ef._n]u8");
    // An exact name has precedence in any scope.
    check("", "u8 n; struct { u8 _n; u8 x[n]; } s;", "n: u8, s: {n: u8, x: [ef.n]u8}");
    check("", "struct { u8 _n; } _s; u8 x[s.n];", "s: {n: u8}, x: [ef.s.n]u8");
}

/// Parses a trace with a field `n` in most scopes, and returns its payload with `fields`, or the
/// error.
fn scopes(fields: &str) -> String {
    let context = "struct { u8 n; struct { u8 m; } s; }";
    let text = format!(
        "{U8} trace {{ major = 1; minor = 8; byte_order = le; \
         packet.header := struct {{ u8 n; u8 ph; }}; }};\
         stream {{ event.context := struct {{ u8 n; u8 ec; u8 y[n]; }};\
         event.header := struct {{ u8 n; u8 eh; }}; packet.context := {context}; }};\
         event {{ name = e; fields := struct {{ {fields} }}; context := struct {{ u8 es; }}; }};"
    );
    match parse_and_write(&text) {
        Ok(schema) => show(schema.streams[0].events[0].payload.as_ref().unwrap()),
        Err(error) => located(error).split_once(' ').unwrap().1.to_owned(),
    }
}

#[test]
fn earlier_scopes_are_searched_from_last_to_first() {
    let check = |length: &str, expected: &str| {
        assert_eq!(scopes(&format!("u8 x[{length}];")), format!("{{x: [{expected}]u8}}"));
    };
    check("es", "es.es");
    check("n", "ec.n");
    check("eh", "eh.eh");
    check("s.m", "pc.s.m");
    check("ph", "ph.ph");
    assert_eq!(scopes("u8 n; u8 x[n];"), "{n: u8, x: [ef.n]u8}");
}

#[test]
fn absolute_names_say_the_scope() {
    let check = |length: &str, expected: &str| {
        assert_eq!(
            scopes(&format!("u8 n; u8 x[{length}];")),
            format!("{{n: u8, x: [{expected}]u8}}")
        );
    };
    check("trace.packet.header.n", "ph.n");
    check("stream.packet.context.s.m", "pc.s.m");
    check("stream.event.header.n", "eh.n");
    check("stream.event.context.n", "ec.n");
    check("event.context.es", "es.es");
    check("event.context._es", "es.es");
    check("event.fields.n", "ef.n");
    check("event->fields->n", "ef.n");
    assert_eq!(
        scopes("struct { u8 n; u8 x[event.fields.a.n]; } a;"),
        "{a: {n: u8, x: [ef.a.n]u8}}"
    );
    assert_eq!(
        scopes("u8 n; struct { u8 n; u8 x[event.fields.n]; } a;"),
        "{n: u8, a: {n: u8, x: [ef.n]u8}}"
    );
}

#[test]
fn fields_that_cannot_be_depended_on() {
    let check = |fields: &str, expected: &str| assert_eq!(scopes(fields), expected);
    check("u8 x[what];", "length `what` is no field before this one");
    check("u8 len; u8 x[lem];", "length `lem` is no field before this one (did you mean `len`?)");
    check(
        "u8 x[x];",
        "length `x` is no field before this one \
         (`x` has to stand before the field that needs it)",
    );
    check(
        "u8 x[n2]; u8 n2;",
        "length `n2` is no field before this one \
         (`n2` has to stand before the field that needs it)",
    );
    check("u8 x[event.fields.n2]; u8 n2;", "length `event.fields.n2` comes later in the trace");
    check("u8 x[event.fields.x];", "length `event.fields.x` holds itself");
    check("u8 x[event.fields];", "length `event.fields` is no field before this one");
    check("u8 x[event.fields.y];", "length `event.fields.y` is no field before this one");
    check("string s; u8 x[s];", "length `s` is a string, expected an unsigned integer");
    check(
        "integer { size = 8; signed = 1; } s; u8 x[s];",
        "length `s` is a signed integer, expected an unsigned integer",
    );
    check(
        "struct { u8 n; } s; u8 x[s];",
        "length `s` is a structure, expected an unsigned integer",
    );
    check("u8 a[2]; u8 x[a];", "length `a` is an array, expected an unsigned integer");
    check("u8 x[a..b];", "expected a name, found `.`");
    check("u8 x[\"a.\"];", "`a.` names no field");
    check(
        "enum : u8 { A, B } t; variant <t> { struct { u8 n; } A; \
         struct { u8 x[event.fields.v.A.n]; } B; } v;",
        "length `event.fields.v.A.n` is in another option of the same variant",
    );
    check("variant <t> { u8 A; } v;", "tag `t` is no field before this one");
}

#[test]
fn scopes_cannot_depend_on_later_ones() {
    let text = format!(
        "{U8} {TRACE} stream {{ packet.context := struct {{ u8 x[stream.event.header.n]; }}; \
         event.header := struct {{ u8 n; }}; }};"
    );
    let error = parse_and_write(&text).unwrap_err();
    assert_eq!(error.message, "length `stream.event.header.n` comes later in the trace");
}

#[test]
fn tags_are_found_like_lengths() {
    check(
        "",
        "enum : u8 { A } t; struct { variant <t> { u8 A; } v; } s;",
        "t: u8{A=0}, s: {v: <ef.t>(A=0: u8)}",
    );
    check(
        "",
        "struct { enum : u8 { A } t; } s; variant <s.t> { u8 A; } v;",
        "s: {t: u8{A=0}}, v: <ef.s.t>(A=0: u8)",
    );
    check(
        "stream { event.header := struct { enum : u8 { A } t; }; };",
        "variant <stream.event.header.t> { u8 A; } v; variant <t> { u8 A; } w;",
        "v: <eh.t>(A=0: u8), w: <eh.t>(A=0: u8)",
    );
}

#[test]
fn lengths_may_come_from_the_environment() {
    check("env { n = 3; };", "u8 x[env.n];", "x: [3]u8");
    check_message("env { n = 3; };", "u8 x[env.m];", "there is no `m` in the environment");
    check_message("env { n = -3; };", "u8 x[env.n];", "`env.n` is no number of elements");
    check_message("env { n = x; };", "u8 x[env.n];", "`env.n` is no number of elements");
}

#[test]
fn an_alias_looks_for_its_length_where_it_is_used() {
    check(
        "struct s { u8 x[n]; };",
        "u8 n; struct s a; struct { u8 n; struct s b; } c;",
        "n: u8, a: {x: [ef.n]u8}, c: {n: u8, b: {x: [ef.c.n]u8}}",
    );
}
