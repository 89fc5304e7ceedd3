//! Manual steps to take after an installation, as commands to copy.

use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Properties of the installing user and machine that decide about the steps.
pub(super) struct User<'u> {
    pub(super) is_root: bool,
    /// Set if the machine runs systemd.
    pub(super) has_systemd: bool,
    /// Function that returns the value of an environment variable, or an empty string if the
    /// variable is unset.
    pub(super) variable: &'u dyn Fn(&str) -> String,
}

/// Prefixes that pkg-config, the loader and systemd search by default.
const SYSTEM: [&str; 2] = ["/usr", "/usr/local"];

/// Returns the steps after which shells, pkg-config and the loader find the files below a prefix.
/// With systemd, a step starts the agent, unless an unprivileged user chose another prefix than
/// [`SYSTEM`].
pub(super) fn hints(prefix: &Path, user: &User<'_>) -> String {
    let is_system = SYSTEM.iter().any(|system| prefix == Path::new(system));
    let sudo = if user.is_root { "" } else { "sudo " };
    let mut hints = String::new();
    let lines = exports(prefix, is_system, user);
    if !lines.is_empty() {
        hints.push_str("to use it from here, and from ~/.profile in later sessions:\n");
        for line in lines {
            let _ = writeln!(hints, "  {line}");
        }
    }
    if is_system {
        let _ = writeln!(hints, "so that programs find the library:\n  {sudo}ldconfig");
    }
    // Units outside of the default prefixes are named by their path. An unprivileged user's own
    // installation is not part of the system.
    if user.has_systemd && (is_system || user.is_root) {
        let unit = match is_system {
            true => "blkkin-agent".to_owned(),
            false => format!("{}/lib/systemd/system/blkkin-agent.service", prefix.display()),
        };
        let _ = writeln!(
            hints,
            "to start the agent with the system:\n  \
             {sudo}systemctl daemon-reload && {sudo}systemctl enable --now {unit}"
        );
    }
    hints
}

/// Returns a command for each environment variable that lacks the prefix's folder. For a prefix in
/// [`SYSTEM`], only `PATH` is checked.
fn exports(prefix: &Path, is_system: bool, user: &User<'_>) -> Vec<String> {
    let has = |name: &str, folder: &Path| {
        std::env::split_paths(&(user.variable)(name)).any(|path| path == *folder)
    };
    let wanted: [(&str, PathBuf); 3] = [
        ("PATH", prefix.join("bin")),
        ("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")),
        ("LD_LIBRARY_PATH", prefix.join("lib")),
    ];
    let wanted = wanted.into_iter().filter(|(name, _)| *name == "PATH" || !is_system);
    let missing = wanted.filter(|(name, folder)| !has(name, folder));
    // An empty element in these lists means the current directory.
    let line = |(name, folder): (&str, PathBuf)| {
        format!("export {name}={}${{{name}:+:${name}}}", folder.display())
    };
    missing.map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::{User, hints};
    use std::path::Path;

    #[track_caller]
    fn check(prefix: &str, is_root: bool, has_systemd: bool, path: &str, expected: &str) {
        let variable = |name: &str| if name == "PATH" { path.to_owned() } else { String::new() };
        let user = User { is_root, has_systemd, variable: &variable };
        let expected = expected.replace("\n            ", "\n");
        assert_eq!(hints(Path::new(prefix), &user), expected.trim_start_matches('\n'));
    }

    #[test]
    fn a_users_own() {
        let rest = "export PKG_CONFIG_PATH=/home/a/.local/lib/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
              export LD_LIBRARY_PATH=/home/a/.local/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
            ";
        let first = "
            to use it from here, and from ~/.profile in later sessions:
              ";
        let path = "export PATH=/home/a/.local/bin${PATH:+:$PATH}
              ";
        let all = format!("{first}{path}{rest}");
        check("/home/a/.local", false, true, "/usr/bin:/bin", &all);
        check("/home/a/.local", false, false, "", &all);
        let known = format!("{first}{rest}");
        check("/home/a/.local", false, true, "/usr/bin:/home/a/.local/bin", &known);
    }

    #[test]
    fn the_systems() {
        let library = |sudo: &str| {
            format!(
                "so that programs find the library:\n              {sudo}ldconfig\n            "
            )
        };
        let agent = |sudo: &str| {
            format!(
                "to start the agent with the system:
              {sudo}systemctl daemon-reload && {sudo}systemctl enable --now blkkin-agent
            "
            )
        };
        let both = |sudo| format!("\n            {}{}", library(sudo), agent(sudo));
        check("/usr/local", true, true, "/usr/local/bin:/bin", &both(""));
        check("/usr/local", false, true, "/usr/local/bin:/bin", &both("sudo "));
        let container = format!("\n            {}", library(""));
        check("/usr/local", true, false, "/usr/local/bin:/bin", &container);
    }

    /// With a prefix outside of systemd's search path, root's hints name the unit by its path.
    /// Without root or without systemd, the hints do not mention the agent.
    #[test]
    fn elsewhere() {
        let variable = |_: &str| "/opt/b/bin:/opt/b/lib:/opt/b/lib/pkgconfig".to_owned();
        let of = |is_root, has_systemd| {
            hints(Path::new("/opt/b"), &User { is_root, has_systemd, variable: &variable })
        };
        let root = of(true, true);
        let unit = "systemctl enable --now /opt/b/lib/systemd/system/blkkin-agent.service";
        assert!(root.contains(unit) && !root.contains("export"), "{root}");
        assert_eq!(of(false, true), "");
        assert_eq!(of(true, false), "");
    }
}
