//! Tests of field locations: their conversion to absolute paths, and the fields to which they may
//! refer.

use super::*;

/// Makes a member that is an unsigned integer, and can serve as a length.
fn number(name: &str) -> String {
    field(name, r#""type": "variable-length-unsigned-integer""#)
}

fn field(name: &str, properties: &str) -> String {
    format!(r#"{{"name": "{name}", "field-class": {{{properties}}}}}"#)
}

fn group(name: &str, members: &[String]) -> String {
    let members = members.join(", ");
    field(name, &format!(r#""type": "structure", "member-classes": [{members}]"#))
}

/// Makes a string member whose length is at `location`.
fn text(name: &str, location: &str) -> String {
    field(name, &format!(r#""type": "dynamic-length-string", "length-field-location": {location}"#))
}

/// Appends the references of all dynamic string lengths within `class` to `found`, in order, each
/// as `scope:path`.
fn references(class: &FieldClass, found: &mut Vec<String>) {
    match class {
        FieldClass::Text(TextClass { length: Length::Dynamic(field), .. }) => {
            found.push(format!("{}:{}", field.scope.ctf2_name(), field.path.join(".")));
        }
        FieldClass::Struct(structure) => {
            structure.members.iter().for_each(|member| references(&member.class, found));
        }
        FieldClass::Array(array) => references(&array.element, found),
        FieldClass::Optional(optional) => references(&optional.content, found),
        FieldClass::Variant(variant) => {
            variant.options.iter().for_each(|option| references(&option.class, found));
        }
        _ => {}
    }
}

#[track_caller]
fn check(members: &[String], expected: &[&str]) {
    let members = payload(&members.join(", ")).unwrap_or_else(|error| panic!("{error}"));
    let mut found = Vec::new();
    references(&structure(members), &mut found);
    assert_eq!(found, expected);
}

#[track_caller]
fn check_fails(members: &[String], expected: &str) {
    let error = payload(&members.join(", ")).expect_err("no error").message;
    let prefix = "fragment 3 (event-record-class): payload-field-class: ";
    assert_eq!(error.strip_prefix(prefix), Some(expected), "{error}");
}

#[test]
fn absolute() {
    let location = r#"{"origin": "event-record-payload", "path": ["len"]}"#;
    check(&[number("len"), text("t", location)], &["event-record-payload:len"]);
    let location = r#"{"origin": "event-record-payload", "path": ["a", "b", "len"]}"#;
    let inner = group("a", &[group("b", &[number("len")])]);
    check(&[inner, text("t", location)], &["event-record-payload:a.b.len"]);
    // CTF 2's release candidates used this form: a plain array that starts with the scope.
    let location = r#"["event-record-payload", "len"]"#;
    check(&[number("len"), text("t", location)], &["event-record-payload:len"]);
}

#[test]
fn relative() {
    let near = text("t", r#"{"path": ["len"]}"#);
    check(&[number("len"), near.clone()], &["event-record-payload:len"]);
    let inner = group("a", &[number("len"), near.clone()]);
    check(&[number("len"), inner], &["event-record-payload:a.len"]);
    let above = text("t", r#"{"path": [null, "len"]}"#);
    check(&[number("len"), group("a", &[above])], &["event-record-payload:len"]);
    let beside = text("t", r#"{"path": [null, null, "b", "len"]}"#);
    let nested = group("a", &[group("c", &[beside])]);
    check(&[group("b", &[number("len")]), nested], &["event-record-payload:b.len"]);
    let list = text("t", r#"["len"]"#);
    check(&[number("len"), list], &["event-record-payload:len"]);
}

#[test]
fn through_arrays_and_variants() {
    let near = text("t", r#"{"path": ["len"]}"#);
    let element =
        format!(r#"{{"type": "structure", "member-classes": [{}, {near}]}}"#, number("len"));
    let array = field(
        "a",
        &format!(r#""type": "static-length-array", "length": 3, "element-field-class": {element}"#),
    );
    check(&[array], &["event-record-payload:a.len"]);

    let variant = |first: &str, second: &str| {
        field(
            "v",
            &format!(
                r#""type": "variant", "selector-field-location": {{"path": ["s"]}}, "options": [
                    {{"selector-field-ranges": [[0, 0]], "field-class": {first}}},
                    {{"selector-field-ranges": [[1, 1]], "field-class": {second}}}]"#
            ),
        )
    };
    let number_class = r#"{"type": "variable-length-unsigned-integer"}"#;
    let absolute = text("t", r#"{"path": ["v", "len"]}"#);
    check(
        &[number("s"), variant(&element, &element), absolute.clone()],
        &["event-record-payload:v.len", "event-record-payload:v.len", "event-record-payload:v.len"],
    );
    let whole = text("t", r#"{"path": ["v"]}"#);
    check(
        &[number("s"), variant(number_class, number_class), whole.clone()],
        &["event-record-payload:v"],
    );
    // A field of another option at the same position does not count.
    let borrower = format!(r#"{{"type": "structure", "member-classes": [{near}]}}"#);
    check_fails(
        &[number("s"), variant(&element, &borrower)],
        "member-classes[1]: field-class: options[1]: field-class: member-classes[0]: field-class: \
         length-field-location: no field `v.len` of the event-record-payload comes before this one",
    );
    let self_referring = r#"{"type": "dynamic-length-string",
        "length-field-location": {"path": ["v"]}}"#;
    check_fails(
        &[number("s"), variant(number_class, self_referring)],
        "member-classes[1]: field-class: options[1]: field-class: length-field-location: \
         no field `v` of the event-record-payload comes before this one",
    );
    // One of the options is a signed integer.
    let signed_class = r#"{"type": "variable-length-signed-integer"}"#;
    check_fails(
        &[number("s"), variant(number_class, signed_class), whole],
        "member-classes[2]: field-class: length-field-location: \
         the field there is not an unsigned integer",
    );
    let empty = r#"{"type": "structure"}"#;
    check_fails(
        &[number("s"), variant(empty, empty), absolute],
        "member-classes[2]: field-class: length-field-location: \
         no field `v.len` of the event-record-payload comes before this one",
    );
}

#[test]
fn wrong_places() {
    let cases = [
        (r#"{"path": []}"#, "the path is empty"),
        (r#"{"path": [null]}"#, "the path ends in null, not in a field's name"),
        (r#"{"path": [1]}"#, "a string is needed, not 1"),
        (r#"{"path": [null, "n"]}"#, "null leaves the outermost structure"),
        (r#"{"path": ["x"]}"#, "no field `x` of the event-record-payload comes before this one"),
        (r#"{"path": ["t"]}"#, "no field `t` of the event-record-payload comes before this one"),
        (r#"{"path": ["z"]}"#, "no field `z` of the event-record-payload comes before this one"),
        (
            r#"{"path": ["n", "x"]}"#,
            "no field `n.x` of the event-record-payload comes before this one",
        ),
        (r#"{"path": ["g"]}"#, "the field there is not an unsigned integer"),
        (r#"{"path": ["i"]}"#, "the field there is not an unsigned integer"),
        (r#"{"path": ["b"]}"#, "the field there is not an unsigned integer"),
        (r#"{"origin": "packet-header", "path": ["n"]}"#, "there is no packet-header"),
        (r#""n""#, "an object is needed, not the string `n`"),
        ("{}", "`path` is missing"),
    ];
    for (location, expected) in cases {
        let members = [
            number("n"),
            group("g", &[]),
            field("i", r#""type": "variable-length-signed-integer""#),
            field(
                "b",
                r#""type": "fixed-length-boolean", "length": 1, "byte-order": "big-endian""#,
            ),
            text("t", location),
            number("z"),
        ];
        let error = payload(&members.join(", ")).expect_err("no error").message;
        let way = "fragment 3 (event-record-class): payload-field-class: member-classes[4]: \
                   field-class: length-field-location: ";
        let found = error.strip_prefix(way).unwrap_or(&error);
        assert_eq!(found.strip_prefix("path: ").unwrap_or(found), expected, "{location}");
    }
    let location = r#"{"origin": "event-record-payloads", "path": ["n"]}"#;
    check_error(
        &[PREAMBLE, STREAM, &event(&text("t", location))],
        "fragment 3 (event-record-class): payload-field-class: member-classes[0]: field-class: \
         length-field-location: origin: `event-record-payloads` is not known here \
         (did you mean `event-record-payload`?)",
    );
}

#[test]
fn other_scopes() {
    let scope = |key: &str, members: &str| {
        format!(r#""{key}": {{"type": "structure", "member-classes": [{members}]}}"#)
    };
    let header = scope("packet-header-field-class", &number("a"));
    let trace = format!(r#"{{"type": "trace-class", {header}}}"#);
    let from_header = text("t", r#"{"origin": "packet-header", "path": ["a"]}"#);
    let stream = format!(
        r#"{{"type": "data-stream-class", {}, {}}}"#,
        scope("packet-context-field-class", &format!("{}, {from_header}", number("b"))),
        scope(
            "event-record-header-field-class",
            &text("t", r#"{"origin": "packet-context", "path": ["b"]}"#)
        ),
    );
    let event = |context: &str, payload: &str| {
        format!(
            r#"{{"type": "event-record-class", {}, {}}}"#,
            scope("specific-context-field-class", context),
            scope("payload-field-class", payload),
        )
    };
    let from_context = text("t", r#"{"origin": "packet-context", "path": ["b"]}"#);
    let from_specific = text("u", r#"{"origin": "event-record-specific-context", "path": ["c"]}"#);
    let good = event(&number("c"), &format!("{from_header}, {from_specific}"));
    let schema = parse_fragments(&[PREAMBLE, &trace, &stream, &good]).unwrap();
    let mut found = Vec::new();
    let classes = [
        &schema.streams[0].packet_context,
        &schema.streams[0].event_header,
        &schema.streams[0].events[0].payload,
    ];
    classes.into_iter().flatten().for_each(|class| references(class, &mut found));
    let expected = [
        "packet-header:a",
        "packet-context:b",
        "packet-header:a",
        "event-record-specific-context:c",
    ];
    assert_eq!(found, expected);

    let early = event(&from_specific.replace("specific-context", "payload"), &number("c"));
    check_error(
        &[PREAMBLE, &trace, &stream, &early],
        "fragment 4 (event-record-class): specific-context-field-class: member-classes[0]: \
         field-class: length-field-location: the event-record-payload comes after this field",
    );
    // A location cannot refer to another stream's packet context.
    let other = r#"{"type": "data-stream-class", "id": 1}"#;
    let stray = event("", &from_context).replace(
        r#""type": "event-record-class""#,
        r#""type": "event-record-class", "data-stream-class-id": 1"#,
    );
    check_error(
        &[PREAMBLE, &trace, &stream, other, &stray],
        "fragment 5 (event-record-class): payload-field-class: member-classes[0]: field-class: \
         length-field-location: there is no packet-context",
    );
}

#[test]
fn aliases_resolve_where_they_are_used() {
    let alias = format!(
        r#"{{"type": "field-class-alias", "name": "sized", "field-class":
            {{"type": "structure", "member-classes": [{}, {}]}}}}"#,
        text("t", r#"{"path": [null, "len"]}"#),
        number("x"),
    );
    let use_alias = r#"{"name": "s", "field-class": "sized"}"#.to_owned();
    let outer = event(&[number("len"), use_alias.clone()].join(", "));
    let inner = event(&group("g", &[number("len"), use_alias.clone()]))
        .replace(r#""type": "event-record-class""#, r#""type": "event-record-class", "id": 1"#);
    let schema = parse_fragments(&[PREAMBLE, &alias, STREAM, &outer, &inner]).unwrap();
    let mut found = Vec::new();
    for event in &schema.streams[0].events {
        references(event.payload.as_ref().unwrap(), &mut found);
    }
    assert_eq!(found, ["event-record-payload:len", "event-record-payload:g.len"]);
    check_error(
        &[PREAMBLE, &alias, STREAM, &event(&use_alias)],
        "fragment 4 (event-record-class): payload-field-class: member-classes[0]: field-class: \
         alias `sized`: member-classes[0]: field-class: length-field-location: \
         no field `len` of the event-record-payload comes before this one",
    );
}
