//! The header of an NPY file, as NumPy writes it.
//!
//! Six bytes of magic, two of version, the length of a text (2 bytes in version 1, 4 in versions 2
//! and 3, little-endian), and the text: a Python dictionary with exactly the keys `descr`,
//! `fortran_order` and `shape`. (NumPy's documentation, `numpy.lib.format`.)

use crate::error::Reason;

/// No header of an array of numbers is longer; lists of fields, which are not read, may be.
const MAX_TEXT: usize = 4096;
/// The most bytes before the numbers begin.
pub(super) const MAX_HEADER: usize = 12 + MAX_TEXT;

/// What a file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) element: Element,
    pub(super) big_endian: bool,
    pub(super) shape: Vec<usize>,
    /// Where the numbers begin, in bytes.
    pub(super) start: u64,
}

/// What a number is stored as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    Bool,
    U8,
    U16,
    U32,
    U64,
    I8,
    I16,
    I32,
    I64,
    F32,
    F64,
}

impl Element {
    pub(super) fn bytes(self) -> usize {
        match self {
            Element::Bool | Element::U8 | Element::I8 => 1,
            Element::U16 | Element::I16 => 2,
            Element::U32 | Element::I32 | Element::F32 => 4,
            Element::U64 | Element::I64 | Element::F64 => 8,
        }
    }

    pub(super) fn is_integer(self) -> bool {
        !matches!(self, Element::F32 | Element::F64)
    }

    fn parse(code: &str) -> Option<Self> {
        Some(match code {
            "b1" => Element::Bool,
            "u1" => Element::U8,
            "u2" => Element::U16,
            "u4" => Element::U32,
            "u8" => Element::U64,
            "i1" => Element::I8,
            "i2" => Element::I16,
            "i4" => Element::I32,
            "i8" => Element::I64,
            "f4" => Element::F32,
            "f8" => Element::F64,
            _ => return None,
        })
    }
}

/// Reads a header from the first bytes of a file. The error says at which byte.
pub(super) fn parse(bytes: &[u8]) -> Result<Header, (u64, Reason)> {
    let npy = |at: usize, detail: &str| (at as u64, Reason::Npy { detail: detail.to_owned() });
    if !bytes.starts_with(b"\x93NUMPY") {
        return Err(npy(0, "not an NPY file: it does not begin with \\x93NUMPY"));
    }
    let short = |wanted: usize| {
        let (wanted, found) = (wanted as u64, bytes.len() as u64);
        (found, Reason::ShortHeader { wanted, found })
    };
    let Some(&version) = bytes.get(6) else { return Err(short(10)) };
    let text_at = match version {
        1 => 10,
        2 | 3 => 12,
        _ => return Err(npy(6, "the version is none of 1, 2 and 3")),
    };
    let Some(length) = bytes.get(8..text_at) else { return Err(short(text_at)) };
    let length = length.iter().rev().fold(0, |sum, &byte| sum << 8 | usize::from(byte));
    if length > MAX_TEXT {
        return Err(npy(8, "the header is longer than that of an array of numbers"));
    }
    let Some(text) = bytes.get(text_at..text_at + length) else {
        return Err(short(text_at + length));
    };
    let text = std::str::from_utf8(text).map_err(|_| npy(text_at, "the header is no text"))?;
    let wrong = |detail: &str| npy(text_at, detail);
    let mut dictionary = Dictionary(text);
    let (element, big_endian, shape) = dictionary.read().map_err(wrong)?;
    Ok(Header { element, big_endian, shape, start: (text_at + length) as u64 })
}

/// What is left of a dictionary's text.
struct Dictionary<'a>(&'a str);

type Array = (Element, bool, Vec<usize>);

impl<'a> Dictionary<'a> {
    fn read(&mut self) -> Result<Array, &'static str> {
        let (mut element, mut shape, mut fortran) = (None, None, None);
        self.take("{")?;
        while !self.skip("}") {
            let key = self.string()?;
            self.take(":")?;
            match key {
                "descr" => element = Some(self.element()?),
                "fortran_order" => fortran = Some(self.boolean()?),
                "shape" => shape = Some(self.shape()?),
                _ => return Err("a key that is none of descr, fortran_order and shape"),
            }
            if !self.skip(",") && !self.0.trim_start().starts_with('}') {
                return Err("no comma between the keys");
            }
        }
        if !self.0.trim().is_empty() {
            return Err("the header goes on after its end");
        }
        match (element, shape, fortran) {
            (Some((element, big)), Some(shape), Some(false)) => Ok((element, big, shape)),
            (.., Some(true)) => Err("the array is in Fortran order: save it in C order"),
            _ => Err("one of the keys descr, fortran_order and shape is missing"),
        }
    }

    fn skip(&mut self, token: &str) -> bool {
        let rest = self.0.trim_start().strip_prefix(token);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    fn take(&mut self, token: &str) -> Result<(), &'static str> {
        if self.skip(token) { Ok(()) } else { Err("the header is not the one that NumPy writes") }
    }

    fn string(&mut self) -> Result<&'a str, &'static str> {
        let quote = if self.skip("'") { '\'' } else { '"' };
        if quote == '"' {
            self.take("\"")?;
        }
        let (string, rest) = self.0.split_once(quote).ok_or("a string without an end")?;
        self.0 = rest;
        Ok(string)
    }

    fn boolean(&mut self) -> Result<bool, &'static str> {
        match self.skip("True") {
            true => Ok(true),
            false => self.take("False").map(|()| false),
        }
    }

    fn element(&mut self) -> Result<(Element, bool), &'static str> {
        if self.0.trim_start().starts_with('[') {
            return Err("an array of records, wanted one of numbers");
        }
        let code = self.string()?;
        let Some((order, kind)) = code.split_at_checked(1) else { return Err("no element type") };
        let element = Element::parse(kind).ok_or("the elements are no numbers that are read")?;
        match order {
            "<" | "|" => Ok((element, false)),
            ">" => Ok((element, true)),
            "=" => Ok((element, cfg!(target_endian = "big"))),
            _ => Err("an unknown byte order"),
        }
    }

    fn shape(&mut self) -> Result<Vec<usize>, &'static str> {
        self.take("(")?;
        let mut shape = Vec::new();
        while !self.skip(")") {
            let text = self.0.trim_start();
            let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
            let size = text[..end].parse().map_err(|_| "a size that is no number")?;
            shape.push(size);
            self.0 = &text[end..];
            if !self.skip(",") && !self.0.trim_start().starts_with(')') {
                return Err("no comma between the sizes");
            }
        }
        Ok(shape)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn file(text: &str) -> Vec<u8> {
        let length = (text.len() as u16).to_le_bytes();
        [b"\x93NUMPY\x01\0", &length[..], text.as_bytes()].concat()
    }

    fn refused(text: &str) -> String {
        parse(&file(text)).unwrap_err().1.to_string()
    }

    #[test]
    fn what_numpy_writes() {
        let text = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4, 5), }      \n";
        let header = parse(&file(text)).unwrap();
        assert_eq!(header.shape, [3, 4, 5]);
        assert_eq!((header.element, header.big_endian), (Element::F32, false));
        assert_eq!(header.start, 10 + text.len() as u64);
        let big = "{'descr': '>i8', 'fortran_order': False, 'shape': (7,), }\n";
        let header = parse(&file(big)).unwrap();
        assert_eq!(
            (header.element, header.big_endian, header.shape),
            (Element::I64, true, vec![7])
        );
        let scalar = "{'descr': '|u1', 'fortran_order': False, 'shape': (), }\n";
        assert!(parse(&file(scalar)).unwrap().shape.is_empty());
    }

    #[test]
    fn what_is_refused() {
        for (text, wanted) in [
            ("{'descr': '<f4', 'fortran_order': True, 'shape': (3,), }", "Fortran order"),
            ("{'descr': '<c8', 'fortran_order': False, 'shape': (3,), }", "no numbers"),
            ("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,)}", "records"),
            ("{'descr': '<f4', 'shape': (3,), }", "missing"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 'x': 1}", "none of descr"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (-3,), }", "no number"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (3 4), }", "no comma"),
            (
                "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
                "no number",
            ),
            ("{'descr': '<f4", "without an end"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), } x", "goes on"),
            ("[]", "not the one"),
        ] {
            let told = refused(text);
            assert!(told.contains(wanted), "{text}: {told}");
        }
        let (at, reason) = parse(b"\x93NUMPY\x02\0\xff\xff\xff\xff").unwrap_err();
        assert_eq!((at, reason.to_string().contains("longer than")), (8, true));
        assert_eq!(parse(b"PK\x03\x04").unwrap_err().0, 0);
    }

    proptest! {
        #[test]
        fn any_text_is_a_header_or_refused(
            mut bytes in Just(file("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }")),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
            cut in any::<prop::sample::Index>(),
        ) {
            for (place, byte) in changes {
                let place = place.index(bytes.len());
                bytes[place] = byte;
            }
            bytes.truncate(cut.index(bytes.len() + 1));
            if let Ok(header) = parse(&bytes) {
                prop_assert!(header.start <= bytes.len() as u64);
            }
        }
    }
}
