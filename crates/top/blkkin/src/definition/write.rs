//! Writing of a session's definition.

use super::{Definition, TriggerWords, VERSION};
use crate::conversation::SessionChannel;
use crate::values::{blocking_text, bytes_text, retention_text};
use blkkin_control::{Context, Levels, Mode, Processes, RedactedRule, Rule, Selection, Sharing};
use serde_json::json;

/// Text of tables, with the keys that have a value.
#[derive(Default)]
struct Writer(String);

impl Writer {
    fn heading(&mut self, heading: &str) {
        self.0 += &format!("\n{heading}\n");
    }

    /// Writes a key with a value whose JSON form is also TOML; nothing for `None`.
    fn put(&mut self, key: &str, value: Option<impl Into<serde_json::Value>>) {
        if let Some(value) = value {
            // TOML knows no other escapes than JSON does, and needs one more.
            let value = value.into().to_string().replace('\u{7f}', "\\u007f");
            self.0 += &format!("{key} = {value}\n");
        }
    }

    fn put_list<T: Into<serde_json::Value> + Clone>(&mut self, key: &str, list: &[T]) {
        let list: Vec<serde_json::Value> = list.iter().cloned().map(Into::into).collect();
        self.put(key, Some(list).filter(|list| !list.is_empty()));
    }
}

impl Definition {
    /// Returns the text of the definition.
    pub(crate) fn to_text(&self) -> String {
        let mut out = Writer("# Session for `blkkin session load`\n".to_owned());
        out.put("version", Some(VERSION));
        out.heading("[session]");
        out.put("name", Some(self.session.name.as_str()));
        out.put("purpose", Some(self.session.purpose.word()));
        let output = self.session.output.as_ref();
        out.put("output", output.map(|output| output.display().to_string()));
        out.put("net", self.net.as_ref().map(|relay| relay.target.to_string()));
        out.put("size-max", self.size_max.map(bytes_text));
        out.put("direct", self.is_direct.then_some(true));
        let drops_oldest = self.net.as_ref().is_some_and(|relay| relay.drops_oldest);
        out.put("drop", drops_oldest.then_some("oldest"));
        out.put("keep", self.retention.keep_ms.map(retention_text));
        out.put("memory", self.retention.memory.map(bytes_text));
        if let Some(rotation) = &self.rotation {
            out.heading("[chunks]");
            out.put("size", rotation.size.map(bytes_text));
            out.put("age", rotation.age_ms.map(retention_text));
            out.put("files", rotation.files);
            out.put("total", rotation.total.map(bytes_text));
            out.put("name-pattern", rotation.name_pattern.as_deref());
            let hook = rotation.hook.as_ref();
            out.put("on-chunk", hook.map(|hook| hook.command.as_str()));
            out.put("on-chunk-timeout", hook.map(|hook| retention_text(hook.timeout_ms)));
        }
        // A shared channel precedes its parts.
        let is_part = |one: &&SessionChannel| matches!(one.sharing, Some(Sharing::Part { .. }));
        let (parts, others): (Vec<_>, Vec<_>) = self.channels.iter().partition(is_part);
        for listed in others.into_iter().chain(parts) {
            let channel = &listed.channel;
            out.heading("[[channel]]");
            out.put("name", Some(channel.name.as_str()));
            if let Some(Sharing::Part { of, percent }) = &listed.sharing {
                // All other settings are the shared channel's.
                out.put("of", Some(of.as_str()));
                out.put("share", Some(format!("{percent}%")));
                continue;
            }
            out.put("domain", Some(listed.domain()));
            out.put("shared", listed.sharing.is_some().then_some(true));
            out.put("overwrite", (channel.mode == Mode::Overwrite).then_some(true));
            out.put("subbuf-size", channel.subbuffer_size.map(bytes_text));
            out.put("num-subbuf", channel.subbuffer_count);
            // The contexts of the kernel's events are given.
            let contexts: Vec<&str> = channel.contexts.iter().map(Context::name).collect();
            out.put_list("contexts", if listed.is_kernel { &[] } else { &contexts[..] });
            let waits = channel.wait_us > 0;
            out.put("blocking", waits.then(|| blocking_text(channel.wait_us)));
            out.put("string-max", channel.event_size.map(|size| bytes_text(size.into())));
        }
        self.rules.iter().for_each(|rule| put_rule(&mut out, rule));
        for TriggerWords { name, words } in &self.triggers {
            out.heading("[[trigger]]");
            out.put("name", Some(name.as_str()));
            out.put_list("options", words);
        }
        out.0
    }
}

fn put_rule(out: &mut Writer, rule: &RedactedRule) {
    let RedactedRule { rule: Rule { channel, enabled, selection }, redactions } = rule;
    let Selection { names, excluded, levels, filter, processes } = selection;
    let Processes { pids, executables, children } = processes;
    out.heading("[[rule]]");
    out.put("channel", Some(channel.as_str()));
    out.put("enabled", (!enabled).then_some(false));
    out.put("events", Some(json!(names)));
    out.put_list("exclude", excluded);
    match levels {
        Levels::Any => {}
        Levels::AtLeast { level } => out.put("level", Some(level.to_string())),
        Levels::Exactly { level } => out.put("level-only", Some(level.to_string())),
    }
    out.put("filter", filter.as_deref());
    out.put_list("pids", pids);
    out.put_list("executables", executables);
    out.put("children", children.then_some(true));
    // The agent adds those that an approval demands.
    let own = redactions.iter().filter(|one| one.events.is_none());
    out.put_list("redact", &own.map(ToString::to_string).collect::<Vec<String>>());
}
