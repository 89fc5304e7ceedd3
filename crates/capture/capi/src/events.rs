//! Events with fields defined by the program. For such an event, `BLKKIN_EVENT` of `blkkin.h`
//! expands to a *site*, an instrumentation point, and calls of [`blkkin_know_`] and
//! [`blkkin_record_`].
//!
//! A site is described by constants. When the program first reaches a site after an agent has
//! connected, or has requested a connection through the program's shared page (the bell), the
//! description is copied into this library's memory as a [`SiteType`], and the site gets a pointer
//! to the copy. So a plugin with sites can be unloaded at any time, and a site in a header is one
//! type however often it was compiled. The first event may be in a signal handler, so registration
//! neither allocates nor waits for a lock. A site is never recorded if its description is invalid,
//! exceeds a limit, or does not fit into the arena for descriptions.

use crate::guard;
use blkkin_ring::Encoder;
use blkkin_trace::{EventType, Kind, Label, Labels, Level, Scalar, Width, registry};
use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

/// Label of an enumeration field: a name and its number; the structure `blkkin_label` in C.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs, reason = "blkkin.h explains the fields")]
pub struct CLabel {
    pub name: *const c_char,
    pub value: i64,
}

/// Description of one field of a site; the structure `blkkin_field_` in C.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs, reason = "blkkin.h explains the fields")]
pub struct CField {
    pub name: *const c_char,
    pub kind: c_int,
    pub shape: c_int,
    pub count: usize,
    pub labels: *const CLabel,
}

/// An instrumentation point; the structure `blkkin_site_` in C. The library changes the first two
/// fields.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs, reason = "blkkin.h explains the fields")]
pub struct Site {
    pub wanted: AtomicPtr<AtomicU64>,
    pub event_type: AtomicPtr<SiteType>,
    pub name: *const c_char,
    pub file: *const c_char,
    pub line: c_int,
    pub level: c_int,
    pub fields_count: usize,
    pub fields: *const CField,
}

/// Value of one field of an event: a number, or the start and length of a string or of elements;
/// the structure `blkkin_value_` in C.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "blkkin.h explains the fields")]
pub struct CValue {
    pub number: u64,
    pub start: *const c_void,
    pub length: usize,
}

/// Target of `wanted` in a site that is not registered yet. Not 0, so that its events call
/// [`blkkin_know_`].
// SAFETY: the name is this library's, and no other library defines it.
#[unsafe(export_name = "blkkin_unknown_")]
pub static UNKNOWN: AtomicU64 = AtomicU64::new(1);
/// Target of `wanted` in a site whose description was refused: always 0.
static NEVER: AtomicU64 = AtomicU64::new(0);

/// The library's copy of a site's description. It is never freed, because the site refers to it.
#[derive(Debug)]
pub struct SiteType {
    event: EventType,
    kinds: &'static [Kind],
}

/// Registers a site; see `blkkin.h`.
///
/// # Safety
///
/// See "Safety" in the crate's documentation. The site is described by constants, which live as
/// long as the call.
// SAFETY: the name is this library's, and no other library defines it.
#[unsafe(no_mangle)]
#[cold]
pub unsafe extern "C" fn blkkin_know_(site: *mut Site) -> c_int {
    // The site's pointer stays as it is, so the next event calls this again.
    if registry::is_quiet() {
        return 0;
    }
    // SAFETY: by the caller's promise it is a site, which is constant except for its atomics.
    let Some(site) = (unsafe { site.as_ref() }) else { return 0 };
    // SAFETY: by the caller's promise.
    match guard::catch_panic(None, || unsafe { register_site(site) }) {
        Some(site_type) => site_type.event.is_enabled().into(),
        None => {
            site.wanted.store((&raw const NEVER).cast_mut(), Ordering::Relaxed);
            0
        }
    }
}

/// Records an event of a site; see `blkkin.h`.
///
/// # Safety
///
/// See "Safety" in the crate's documentation. The site is registered, and the values match its
/// fields in number and kind.
// SAFETY: the name is this library's, and no other library defines it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn blkkin_record_(site: *mut Site, values: *const CValue) {
    // SAFETY: by the caller's promise it is a site, which is constant except for its atomics.
    let Some(site) = (unsafe { site.as_ref() }) else { return };
    // Acquire: pairs with the release in `register_site`.
    let site_type = site.event_type.load(Ordering::Acquire);
    // SAFETY: null, or a type, which is never freed.
    let Some(site_type) = (unsafe { site_type.as_ref() }) else { return };
    // SAFETY: there are as many values as fields.
    let values = unsafe { slice::from_raw_parts(values, site_type.kinds.len()) };
    guard::catch_panic((), || {
        site_type.event.record_with(site_type.kinds, |encoder| {
            for (kind, value) in site_type.kinds.iter().zip(values) {
                // SAFETY: the caller's values match the kinds.
                unsafe { put(encoder, *kind, value) };
            }
        });
    });
}

/// Appends a value to an event.
///
/// # Safety
///
/// The value matches the kind.
#[inline(always)]
unsafe fn put(encoder: &mut Encoder<'_>, kind: Kind, value: &CValue) {
    match kind {
        Kind::String if value.start.is_null() => encoder.put([0]),
        // SAFETY: not NULL, so it ends with a NUL.
        Kind::String if value.length == usize::MAX => unsafe {
            encoder.put_c_string(value.start.cast());
        },
        // SAFETY: not NULL, so there are this many bytes.
        Kind::String => unsafe {
            let length = value.length.min(isize::MAX.cast_unsigned());
            encoder.put_bytes_as_string(slice::from_raw_parts(value.start.cast(), length));
        },
        // SAFETY: by the caller's promise.
        Kind::Array(of, count) => unsafe { put_many(encoder, of, value.start, count as usize) },
        // SAFETY: by the caller's promise.
        Kind::Sequence(of) => unsafe {
            let length = if value.start.is_null() { 0 } else { value.length };
            // A sequence of more than 2³²-1 elements fits no event.
            encoder.put((length as u32).to_le_bytes());
            put_many(encoder, of, value.start, length);
        },
        kind => match kind.size() {
            Some(1) => encoder.put((value.number as u8).to_le_bytes()),
            Some(2) => encoder.put((value.number as u16).to_le_bytes()),
            Some(4) => encoder.put((value.number as u32).to_le_bytes()),
            _ => encoder.put(value.number.to_le_bytes()),
        },
    }
}

/// Appends `count` numbers, which are little-endian in memory; zeros if `start` is NULL.
///
/// # Safety
///
/// `start` is NULL, or there are `count` numbers.
#[inline(never)]
unsafe fn put_many(encoder: &mut Encoder<'_>, of: Scalar, start: *const c_void, count: usize) {
    const { assert!(cfg!(target_endian = "little")) };
    let size = count.saturating_mul(of.bytes());
    if start.is_null() {
        (0..size).for_each(|_| encoder.put([0]));
    } else if isize::try_from(size).is_ok() {
        // SAFETY: not NULL, so there are this many bytes.
        encoder.put_bytes(unsafe { slice::from_raw_parts(start.cast(), size) });
    } else {
        encoder.give_up();
    }
}

/// Size of the arena for site descriptions, in bytes.
const ARENA_SIZE: usize = 4 << 20;
/// Maximum number of event types in one program; sites of further types are not recorded.
const TYPES_MAX: usize = registry::TYPES_MAX;

/// Arena for site descriptions: a bump allocator whose memory is never freed.
struct Arena(UnsafeCell<MaybeUninit<[u64; ARENA_SIZE / 8]>>);

// SAFETY: each part of it is allocated once.
unsafe impl Sync for Arena {}

static ARENA: Arena = Arena(UnsafeCell::new(MaybeUninit::zeroed()));
static USED: AtomicUsize = AtomicUsize::new(0);

/// Hash table of all site types, keyed by site description. Entries are never removed.
static TYPES: [AtomicPtr<SiteType>; 2 * TYPES_MAX] =
    [const { AtomicPtr::new(ptr::null_mut()) }; 2 * TYPES_MAX];
const PLACES_MASK: usize = 2 * TYPES_MAX - 1;
const _: () = assert!(TYPES_MAX.is_power_of_two());

/// Stores a value in the arena. Returns `None` if there is no room.
fn store<T>(value: T) -> Option<&'static T> {
    store_all(1, |_| Some(copy_value(&value))).and_then(|kept| kept.first())
}

/// Moves a value out of a reference; the caller no longer uses the original.
fn copy_value<T>(value: &T) -> T {
    // SAFETY: `store` makes one copy, and the value has nothing to drop.
    const { assert!(!std::mem::needs_drop::<T>()) };
    // SAFETY: as above.
    unsafe { ptr::read(value) }
}

/// Stores `count` values in the arena. Returns `None` if there is no room, or `make` fails.
fn store_all<T>(count: usize, mut make: impl FnMut(usize) -> Option<T>) -> Option<&'static [T]> {
    const { assert!(align_of::<T>() <= 8 && !std::mem::needs_drop::<T>()) };
    let size = size_of::<T>().checked_mul(count)?.checked_next_multiple_of(8)?;
    let at = USED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
        used.checked_add(size).filter(|end| *end <= ARENA_SIZE)
    });
    // SAFETY: this many bytes are there, aligned, and allocated by no other call.
    let start = unsafe { ARENA.0.get().cast::<u8>().add(at.ok()?).cast::<T>() };
    for index in 0..count {
        // SAFETY: within the allocated part.
        unsafe { start.add(index).write(make(index)?) };
    }
    // SAFETY: all were written, and are not written again.
    Some(unsafe { slice::from_raw_parts(start, count) })
}

/// Returns a site's string; `None` if it is NULL or not UTF-8.
///
/// # Safety
///
/// `from` is NULL, or ends with a NUL and lives as long as the result is used.
unsafe fn text<'a>(from: *const c_char) -> Option<&'a str> {
    // SAFETY: not NULL, so it ends with a NUL.
    (!from.is_null()).then(|| unsafe { CStr::from_ptr(from) }.to_str().ok()).flatten()
}

fn store_text(text: &str) -> Option<&'static str> {
    let bytes = text.as_bytes();
    let kept = store_all(bytes.len(), |at| bytes.get(at).copied())?;
    str::from_utf8(kept).ok()
}

/// Splits a name `PROVIDER:NAME`. Each part may be a C string literal with its quotes.
fn split_name(name: &str) -> Option<(&str, &str)> {
    fn bare(text: &str) -> Option<(&str, &str)> {
        match text.strip_prefix('"') {
            Some(rest) => rest.split_once('"'),
            None => Some(text.split_at(text.find(':').unwrap_or(text.len()))),
        }
    }
    let (provider, rest) = bare(name)?;
    let (name, rest) = bare(rest.strip_prefix(':')?)?;
    (!provider.is_empty() && !name.is_empty() && rest.is_empty()).then_some((provider, name))
}

/// Finds or creates a site's type, and stores it in the site. Returns `None` if the site cannot be
/// recorded: its description is invalid or does not fit into the arena.
///
/// # Safety
///
/// As for [`blkkin_record_`].
unsafe fn register_site(site: &Site) -> Option<&'static SiteType> {
    let fields = match site.fields_count {
        0 => &[],
        // SAFETY: the site has this many fields by the caller's promise.
        count => unsafe { slice::from_raw_parts(site.fields, count) },
    };
    // SAFETY: by the caller's promise.
    let hash = unsafe { hash(site, fields)? };
    let places = (0..TYPES.len()).map(|step| (hash as usize).wrapping_add(step) & PLACES_MASK);
    let mut new: Option<&'static SiteType> = None;
    for place in places {
        let place = TYPES.get(place)?;
        // Acquire: pairs with the release of the compare-and-swap below.
        let mut found = place.load(Ordering::Acquire);
        if found.is_null() {
            if new.is_none() {
                // SAFETY: by the caller's promise.
                new = Some(unsafe { make(site, fields)? });
            }
            let made = ptr::from_ref(new?).cast_mut();
            let (set, get) = (Ordering::AcqRel, Ordering::Acquire);
            match place.compare_exchange(ptr::null_mut(), made, set, get) {
                Ok(_) => found = made,
                Err(other) => found = other,
            }
        }
        // SAFETY: a type that is never freed.
        let found = unsafe { found.as_ref() }?;
        // SAFETY: by the caller's promise.
        if unsafe { is_same(found, site, fields) } {
            found.event.register(found.kinds);
            // Stored after the type is registered, so that a type found in a site can be recorded.
            let word = ptr::from_ref(found.event.wanted_word()).cast_mut();
            site.event_type.store(ptr::from_ref(found).cast_mut(), Ordering::Release);
            site.wanted.store(word, Ordering::Relaxed);
            return Some(found);
        }
    }
    None
}

/// Returns the FNV-1a hash of a site's name, file, line and field names; `None` if a string is NULL
/// or not UTF-8.
///
/// # Safety
///
/// As for [`blkkin_record_`].
unsafe fn hash(site: &Site, fields: &[CField]) -> Option<u64> {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |bytes: &[u8]| {
        for byte in bytes {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    // SAFETY: strings of the site, valid by the caller's promise.
    unsafe {
        add(text(site.name)?.as_bytes());
        add(text(site.file)?.as_bytes());
        add(&site.line.to_le_bytes());
        for field in fields {
            add(text(field.name)?.as_bytes());
        }
    }
    Some(hash)
}

/// Returns true if the type's description equals the site's.
///
/// # Safety
///
/// As for [`blkkin_record_`].
unsafe fn is_same(site_type: &SiteType, site: &Site, fields: &[CField]) -> bool {
    // SAFETY: strings of the site, valid by the caller's promise.
    let of_site = unsafe { (text(site.name).and_then(split_name), text(site.file)) };
    let (Some((provider, name)), Some(file)) = of_site else { return false };
    let is_place =
        site_type.event.place() == (path_end(file), line_of(site))
            && site_type.event.level().number() == u64::from(site.level.cast_unsigned())
            && site_type.event.name().split_at_checked(provider.len()).is_some_and(
                |(front, back)| front == provider && back.strip_prefix(':') == Some(name),
            );
    is_place
        && site_type.kinds.len() == fields.len()
        && site_type.event.fields_of_kinds(site_type.kinds).zip(fields).all(
            |((name, kind), field)| {
                // SAFETY: as above.
                unsafe { text(field.name) == Some(name) && is_kind(kind, field) }
            },
        )
}

/// Returns true if the type's kind of a field equals the kind that the site describes.
///
/// # Safety
///
/// As for [`blkkin_record_`].
unsafe fn is_kind(kind: Kind, field: &CField) -> bool {
    match (kind, field.shape) {
        (Kind::Enum(_, labels), 4) => {
            labels.0.len() == field.count
                && labels.0.iter().enumerate().all(|(index, label)| {
                    // SAFETY: there are this many labels.
                    let of = unsafe { &*field.labels.add(index) };
                    // SAFETY: a string of the site.
                    let name = unsafe { text(of.name) };
                    name == Some(label.name) && of.value.cast_unsigned() == label.value
                })
        }
        (kind, _) => plain_kind(field) == Some(kind),
    }
}

/// Copies a site's description into the arena.
///
/// # Safety
///
/// As for [`blkkin_record_`].
unsafe fn make(site: &Site, fields: &[CField]) -> Option<&'static SiteType> {
    // SAFETY: strings of the site, valid by the caller's promise.
    let (parts, file) = unsafe { (text(site.name).and_then(split_name)?, text(site.file)?) };
    let (provider, name) = parts;
    let name_bytes = provider.bytes().chain([b':']).chain(name.bytes());
    let mut bytes = name_bytes;
    let kept =
        store_all(provider.len().checked_add(name.len())?.checked_add(1)?, |_| bytes.next())?;
    let name = str::from_utf8(kept).ok()?;
    let file = store_text(path_end(file))?;
    // SAFETY: as above.
    let names = store_all(fields.len(), |at| store_text(unsafe { text(fields.get(at)?.name)? }))?;
    let kinds = store_all(fields.len(), |at| {
        let field = fields.get(at)?;
        match field.shape {
            // SAFETY: as above.
            4 => unsafe { enum_kind(field) },
            _ => plain_kind(field),
        }
    })?;
    let level = Level::from_number(u64::try_from(site.level).ok()?)?;
    store(SiteType { event: EventType::new(name, level, names, (file, line_of(site))), kinds })
}

/// Returns the end of a path, at most as long as a description's file name may be.
fn path_end(path: &str) -> &str {
    let start = path.len().saturating_sub(blkkin_trace::control::limits::FILE_SIZE_MAX);
    // A character at the cut is left out.
    path.get(path.ceil_char_boundary(start)..).unwrap_or_default()
}

fn line_of(site: &Site) -> u32 {
    u32::try_from(site.line).unwrap_or(0)
}

/// Copies an enumeration's labels into the arena and returns its kind.
///
/// # Safety
///
/// As for [`blkkin_record_`].
unsafe fn enum_kind(field: &CField) -> Option<Kind> {
    let scalar = scalar(field.kind)?;
    let labels = store_all(field.count, |index| {
        // SAFETY: there are this many labels.
        let label = unsafe { field.labels.add(index).as_ref() }?;
        // SAFETY: a string of the site.
        let name = store_text(unsafe { text(label.name)? })?;
        Some(Label { name, value: label.value.cast_unsigned() })
    })?;
    Some(Kind::Enum(scalar, store(Labels(labels))?))
}

/// Returns the kind of a field other than an enumeration.
fn plain_kind(field: &CField) -> Option<Kind> {
    let count = u32::try_from(field.count).ok();
    match field.shape {
        0 => Some(match scalar(field.kind)? {
            Scalar::Unsigned { width, hex: true } => Kind::Hex(width),
            Scalar::Unsigned { width, .. } => match width {
                Width::Bits8 => Kind::U8,
                Width::Bits16 => Kind::U16,
                Width::Bits32 => Kind::U32,
                Width::Bits64 => Kind::U64,
            },
            Scalar::Signed { width, .. } => match width {
                Width::Bits8 => Kind::I8,
                Width::Bits16 => Kind::I16,
                Width::Bits32 => Kind::I32,
                Width::Bits64 => Kind::I64,
            },
            Scalar::F32 => Kind::F32,
            Scalar::F64 => Kind::F64,
            Scalar::Bool => Kind::Bool,
        }),
        1 => Some(Kind::String),
        2 => Some(Kind::Array(scalar(field.kind)?, count?)),
        3 => Some(Kind::Sequence(scalar(field.kind)?)),
        _ => None,
    }
}

/// Returns the number type for the constant `kind` of `blkkin.h`; `None` if it is unknown.
fn scalar(kind: c_int) -> Option<Scalar> {
    let width = |of: c_int| match of {
        0 => Width::Bits8,
        1 => Width::Bits16,
        2 => Width::Bits32,
        _ => Width::Bits64,
    };
    Some(match kind {
        0..=3 => Scalar::Unsigned { width: width(kind), hex: false },
        4..=7 => Scalar::Signed { width: width(kind.wrapping_sub(4)), hex: false },
        8 => Scalar::F32,
        9 => Scalar::F64,
        10 => Scalar::Bool,
        11..=14 => Scalar::Unsigned { width: width(kind.wrapping_sub(11)), hex: true },
        _ => return None,
    })
}

#[cfg(target_pointer_width = "64")]
const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<CLabel>() == 16 && size_of::<CField>() == 32 && size_of::<CValue>() == 24);
    assert!(size_of::<Site>() == 56);
    assert!(offset_of!(CField, kind) == 8 && offset_of!(CField, count) == 16);
    assert!(offset_of!(CField, labels) == 24);
    assert!(offset_of!(Site, name) == 16 && offset_of!(Site, line) == 32);
    assert!(offset_of!(Site, fields_count) == 40 && offset_of!(Site, fields) == 48);
    assert!(offset_of!(CValue, start) == 8 && offset_of!(CValue, length) == 16);
};

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;

    /// Sites with equal descriptions get the same type, even if the path of their file exceeds the
    /// maximum size and is truncated.
    #[test]
    fn places_in_files_with_long_paths_are_known() {
        let file = CString::new("directory/".repeat(200)).unwrap();
        let site = || Site {
            wanted: AtomicPtr::new((&raw const UNKNOWN).cast_mut()),
            event_type: AtomicPtr::default(),
            name: c"long:path".as_ptr(),
            file: file.as_ptr(),
            line: 1,
            level: 6,
            fields_count: 0,
            fields: ptr::null(),
        };
        // SAFETY: a site without fields, whose strings live as long as the call.
        let [one, other] = [site(), site()].map(|site| unsafe { register_site(&site) });
        assert!(ptr::eq(one.unwrap(), other.unwrap()));
        let own =
            |place: &&AtomicPtr<SiteType>| ptr::eq(place.load(Ordering::Acquire), one.unwrap());
        assert_eq!(TYPES.iter().filter(own).count(), 1);
    }

    #[test]
    fn names_are_words_or_literals() {
        assert_eq!(split_name("osd:write"), Some(("osd", "write")));
        assert_eq!(split_name(r#""osd":write"#), Some(("osd", "write")));
        assert_eq!(split_name(r#""my.app":"a:b""#), Some(("my.app", "a:b")));
        assert_eq!(split_name(r#"osd:"a b""#), Some(("osd", "a b")));
        for wrong in ["", ":", "osd:", r#"""#, r#""osd:write"#, "a:b:c", r#""":a"#] {
            assert_eq!(split_name(wrong), None, "{wrong}");
        }
    }
}
