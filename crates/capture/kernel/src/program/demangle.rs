//! Demangling of Rust and C++ names, with limits against hostile names.

use cpp_demangle::{BorrowedSymbol, DemangleOptions, ParseOptions};
use std::fmt::{self, Write};

/// Maximum size in bytes of a name that is demangled.
const MANGLED_BYTES_MAX: usize = 4096;
/// Maximum size in bytes of a demangled name. A short name may stand for gigabytes.
const DEMANGLED_BYTES_MAX: usize = 16 << 10;
/// Maximum depth of recursion of the parser for C++. The parser tries alternatives at each level,
/// so its work for an invalid name is exponential in the depth. Of 375,000 names in 400 libraries
/// and programs, 99.1 % are less deep.
const CPP_DEPTH_MAX: u32 = 48;

/// Demangled name of a function.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Demangled {
    /// Complete name: of a Rust function without its hash, of a C++ function with parameters.
    pub(super) full: String,
    /// For a C++ function: its name without parameter list and result, as users write it.
    pub(super) short: Option<String>,
}

impl Demangled {
    /// Size of both names in bytes.
    pub(super) fn size(&self) -> usize {
        self.full.len() + self.short.as_ref().map_or(0, String::len)
    }
}

/// Returns the demangled name; `None` for names that are not mangled, and beyond the limits.
pub(super) fn demangle(name: &str) -> Option<Demangled> {
    if name.len() > MANGLED_BYTES_MAX {
        return None;
    }
    if !(name.starts_with("_Z") || name.starts_with("_R")) {
        return None;
    }
    if let Ok(symbol) = rustc_demangle::try_demangle(name) {
        let mut text = LimitedText::default();
        write!(text, "{symbol:#}").ok()?;
        return Some(Demangled { full: text.0, short: None });
    }
    // Compilers append `.cold`, `.part.0` and the like to names of parts of functions, which the
    // demangler prints as a note.
    let options = ParseOptions::default().recursion_limit(CPP_DEPTH_MAX);
    let symbol = BorrowedSymbol::new_with_options(name.as_bytes(), &options).ok()?;
    let text = |options: DemangleOptions| {
        let mut text = LimitedText::default();
        symbol.structured_demangle(&mut text, &options).ok().map(|()| text.0)
    };
    let full = text(DemangleOptions::new())?;
    let short = text(DemangleOptions::new().no_params().no_return_type());
    Some(Demangled { short: short.filter(|short| *short != full), full })
}

/// Text that refuses to exceed [`DEMANGLED_BYTES_MAX`].
#[derive(Default)]
struct LimitedText(String);

impl Write for LimitedText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > DEMANGLED_BYTES_MAX {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{DEMANGLED_BYTES_MAX, demangle};

    #[track_caller]
    fn check(name: &str, full: &str, short: Option<&str>) {
        let demangled = demangle(name).expect("a mangled name");
        assert_eq!(demangled.full, full);
        assert_eq!(demangled.short.as_deref(), short);
    }

    #[test]
    fn rust_and_cpp_names() {
        check("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write", None);
        check("_RNvC6_123foo3bar", "123foo::bar", None);
        check("_ZN5space3fooEibc", "space::foo(int, bool, char)", Some("space::foo"));
        check("_Z3fooIiEvT_", "void foo<int>(int)", Some("foo<int>"));
        check("_ZN3FooC1Ev", "Foo::Foo()", Some("Foo::Foo"));
        for name in ["", "main", "_Z", "_R", "_ZN", "_start", "_ZN3foo", "_Z\u{e4}"] {
            assert_eq!(demangle(name), None, "{name}");
        }
    }

    /// Makes a C++ name with parameters each of which contains the previous one twice.
    fn nested_cpp(levels: u32) -> String {
        let pairs = (0..levels).map(|level| {
            let last = char::from_digit(level, 36).expect("few levels").to_ascii_uppercase();
            format!("S_IS{last}_S{last}_E")
        });
        format!("_Z1fSt4pairIiiE{}", pairs.collect::<String>())
    }

    /// Makes a Rust name with tuples each of which contains the previous one twice.
    fn nested_rust(levels: usize) -> String {
        const DIGITS: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
        let mut name = "INvC1a1f".to_owned();
        let mut last = name.len();
        name += "TjjE";
        for _ in 0..levels {
            // A back-reference is its position in the name, less 1, in base 62.
            let mut position = last - 1;
            let mut digits = Vec::new();
            while position > 0 || digits.is_empty() {
                digits.insert(0, DIGITS[position % 62]);
                position /= 62;
            }
            let digits = String::from_utf8(digits).expect("text");
            last = name.len();
            name += &format!("TB{digits}_B{digits}_E");
        }
        format!("_R{name}E")
    }

    /// The size of names with back-references doubles with each level. The work ends at the limit.
    #[test]
    fn hostile_names_end_at_the_limit() {
        let cpp = demangle(&nested_cpp(1)).expect("a name").full;
        assert_eq!(
            cpp,
            "f(std::pair<int, int>, std::pair<std::pair<int, int>, std::pair<int, int> >)"
        );
        let rust = demangle(&nested_rust(1)).expect("a name").full;
        assert_eq!(rust, "a::f::<(usize, usize), ((usize, usize), (usize, usize))>");
        for levels in [5, 7] {
            let size = demangle(&nested_cpp(levels)).map_or(0, |name| name.full.len());
            assert!((500..=DEMANGLED_BYTES_MAX).contains(&size), "{levels}: {size}");
        }
        assert_eq!(demangle(&nested_cpp(35)), None);
        assert_eq!(demangle(&nested_rust(60)), None);
    }

    /// The parser's work for an invalid name grows tenfold with each two levels of templates, to
    /// 59 ms at eight levels with its own limit. Names of six levels are demangled.
    #[test]
    fn deep_names_are_refused() {
        let name = |levels| format!("_Z1f{}i{}", "1aI".repeat(levels), "E".repeat(levels));
        let demangled = demangle(&name(6)).expect("a name").full;
        assert_eq!(demangled, "f(a<a<a<a<a<a<int> > > > > >)");
        for levels in 10..200 {
            assert_eq!(demangle(&name(levels)), None);
        }
    }
}
