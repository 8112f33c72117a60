//! Collections of accesses: tuples to 12, vectors, arrays, options.
//!
//! # Invariant
//! Each part claims and borrows only for itself, and the check for conflicts sees all claims of
//! a task together; so two parts of one collection never hand out overlapping exclusive data.
#![allow(unsafe_code, reason = "implements the unsafe trait `Access` part by part")]

use super::Access;
use crate::claims::Claims;
use crate::error::SubmitError;

macro_rules! tuple {
    ($($name:ident)*) => {
        // SAFETY: each part keeps the promise of `Access` for its own handles.
        unsafe impl<$($name: Access),*> Access for ($($name,)*) {
            type Claim = ($($name::Claim,)*);
            type Data<'a> = ($($name::Data<'a>,)*);

            #[inline(always)]
            #[expect(non_snake_case, reason = "type names name the parts")]
            fn claim(self, claims: &mut Claims) -> Result<Self::Claim, SubmitError> {
                let ($($name,)*) = self;
                Ok(($($name.claim(claims)?,)*))
            }

            #[inline]
            #[expect(non_snake_case, reason = "type names name the parts")]
            unsafe fn data<'a>(claim: &'a mut Self::Claim) -> Self::Data<'a> {
                let ($($name,)*) = claim;
                // SAFETY: the caller's promise covers every part.
                ($(unsafe { $name::data($name) },)*)
            }
        }
    };
}

// SAFETY: nothing is claimed and nothing handed out.
unsafe impl Access for () {
    type Claim = ();
    type Data<'a> = ();

    #[inline]
    fn claim(self, _: &mut Claims) -> Result<(), SubmitError> {
        Ok(())
    }

    unsafe fn data(_: &mut ()) {}
}

tuple!(A);
tuple!(A B);
tuple!(A B C);
tuple!(A B C D);
tuple!(A B C D E);
tuple!(A B C D E F);
tuple!(A B C D E F G);
tuple!(A B C D E F G H);
tuple!(A B C D E F G H I);
tuple!(A B C D E F G H I J);
tuple!(A B C D E F G H I J K);
tuple!(A B C D E F G H I J K L);

// SAFETY: each part keeps the promise of `Access` for its own handles.
unsafe impl<A: Access> Access for Vec<A> {
    type Claim = Vec<A::Claim>;
    type Data<'a> = Vec<A::Data<'a>>;

    fn claim(self, claims: &mut Claims) -> Result<Self::Claim, SubmitError> {
        self.into_iter().map(|part| part.claim(claims)).collect()
    }

    unsafe fn data<'a>(claim: &'a mut Self::Claim) -> Self::Data<'a> {
        // SAFETY: the caller's promise covers every part.
        claim.iter_mut().map(|part| unsafe { A::data(part) }).collect()
    }
}

// SAFETY: each part keeps the promise of `Access` for its own handles.
unsafe impl<A: Access, const N: usize> Access for [A; N] {
    type Claim = [A::Claim; N];
    type Data<'a> = [A::Data<'a>; N];

    #[inline(always)]
    fn claim(self, claims: &mut Claims) -> Result<Self::Claim, SubmitError> {
        let mut refused = None;
        let parts = self.map(|part| match refused {
            None => part.claim(claims).map_err(|error| refused = Some(error)).ok(),
            Some(_) => None,
        });
        match refused {
            Some(error) => Err(error),
            None => Ok(parts.map(|part| part.expect("none was refused"))),
        }
    }

    unsafe fn data<'a>(claim: &'a mut Self::Claim) -> Self::Data<'a> {
        // SAFETY: the caller's promise covers every part.
        claim.each_mut().map(|part| unsafe { A::data(part) })
    }
}

// SAFETY: the part, if there is one, keeps the promise of `Access`.
unsafe impl<A: Access> Access for Option<A> {
    type Claim = Option<A::Claim>;
    type Data<'a> = Option<A::Data<'a>>;

    fn claim(self, claims: &mut Claims) -> Result<Self::Claim, SubmitError> {
        self.map(|part| part.claim(claims)).transpose()
    }

    unsafe fn data<'a>(claim: &'a mut Self::Claim) -> Self::Data<'a> {
        // SAFETY: the caller's promise covers the part.
        claim.as_mut().map(|part| unsafe { A::data(part) })
    }
}
