//! The time in which a certificate is valid.

use std::time::Duration;

use rcgen::CertificateParams;
use rustls::pki_types::{CertificateDer, UnixTime};
use time::OffsetDateTime;

use super::CertificateError;

/// The time in which a certificate is valid, to the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The first second.
    pub not_before: UnixTime,
    /// The last second.
    pub not_after: UnixTime,
}

impl Validity {
    /// From an hour before `now`, for hosts whose clocks are behind, until `lasting` after `now`.
    pub fn starting(now: UnixTime, lasting: Duration) -> Self {
        let now = now.as_secs();
        Self {
            not_before: at(now.saturating_sub(BACKDATED.as_secs())),
            not_after: at(now.saturating_add(lasting.as_secs())),
        }
    }

    /// The validity of a certificate.
    ///
    /// # Errors
    /// [`CertificateError::Unfit`] where the bytes are no certificate.
    pub fn of(certificate: &CertificateDer<'_>) -> Result<Self, CertificateError> {
        let (_, parsed) = x509_parser::parse_x509_certificate(certificate).map_err(|error| {
            CertificateError::unfit(format!("invalid bytes ({error})"), "a certificate")
        })?;
        let seconds =
            |time: x509_parser::time::ASN1Time| at(time.timestamp().max(0).unsigned_abs());
        let found = parsed.validity();
        Ok(Self { not_before: seconds(found.not_before), not_after: seconds(found.not_after) })
    }

    /// As much of this as lies within `other`: no certificate outlives the one that signed it.
    pub(super) fn within(self, other: Self) -> Self {
        Self {
            not_before: self.not_before.max(other.not_before),
            not_after: self.not_after.min(other.not_after),
        }
    }

    pub(super) fn write_to(self, params: &mut CertificateParams) {
        params.not_before = offset(self.not_before);
        params.not_after = offset(self.not_after);
    }
}

/// A time as text, to the minute, in UTC.
pub fn date(time: UnixTime) -> String {
    let time = offset(time);
    format!("{} {:02}:{:02} UTC", time.date(), time.hour(), time.minute())
}

pub(super) fn at(seconds: u64) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(seconds.min(LAST_SECOND)))
}

pub(super) fn offset(time: UnixTime) -> OffsetDateTime {
    let seconds = time.as_secs().min(LAST_SECOND).cast_signed();
    OffsetDateTime::from_unix_timestamp(seconds).expect("the time is no later than the year 9999")
}

const BACKDATED: Duration = Duration::from_secs(3_600);

/// The last second that a certificate can name (RFC 5280, section 4.1.2.5): 9999-12-31 23:59:59.
const LAST_SECOND: u64 = 253_402_300_799;
