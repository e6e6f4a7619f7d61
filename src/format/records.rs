//! The records of one batch, of any magic.

use crate::format::batch::{Batch, Codec, HEADER_V2_LEN, Header, Limits, MIN_RECORD_LEN, fits};
use crate::format::compression::Decoder;
use crate::format::cursor::Cursor;
use crate::format::error::BatchError;
use crate::format::message_set::{MessageInfo, Messages};
use crate::format::record::{Record, StoredRecord, TimestampType};
use crate::units::{Offset, Timestamp};

/// The records of one batch in order; control records too. After an error it ends.
#[derive(Debug)]
pub struct Records<'s>(Kind<'s>);

#[derive(Debug)]
enum Kind<'s> {
    Batch(BatchRecords<'s>),
    Set(Messages<'s>),
}

impl<'s> Records<'s> {
    /// Decompresses where needed and stands before the first record.
    pub(super) fn decode(
        batch: &Batch<'s>,
        decoder: &'s mut Decoder,
        limits: &Limits,
    ) -> Result<Self, BatchError> {
        if batch.header.magic < 2 {
            return Messages::decode(batch, decoder, limits).map(Kind::Set).map(Self);
        }
        let payload = batch.bytes.get(HEADER_V2_LEN..).unwrap_or_default();
        let payload = match batch.header.codec {
            // Kafka doesn't look at the payload of a batch without records either.
            _ if batch.header.record_count == Some(0) => &[],
            Codec::None => {
                decoder.note_decoded(payload.len());
                payload
            }
            codec => decoder.decode(codec, batch.header.magic, payload, limits)?,
        };
        BatchRecords::new(&batch.header, payload).map(Kind::Batch).map(Self)
    }

    /// What the message of the record that came last says of itself; `None` in magic 2 and before the first record.
    pub const fn message(&self) -> Option<MessageInfo> {
        match &self.0 {
            Kind::Batch(_) => None,
            Kind::Set(messages) => messages.last_message(),
        }
    }
}

impl Records<'_> {
    /// Before the first record: the bytes that the entry would take without a codec, which those of magic 0 and 1 take as
    /// messages of their own.
    pub fn unpacked_len(&self) -> usize {
        match &self.0 {
            Kind::Batch(records) => HEADER_V2_LEN.saturating_add(records.rest.rest().len()),
            Kind::Set(messages) => messages.unpacked_len(),
        }
    }
}

impl<'s> Iterator for Records<'s> {
    type Item = Result<Record<'s>, BatchError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Kind::Batch(records) => records.next(),
            Kind::Set(messages) => messages.next(),
        }
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        match &self.0 {
            Kind::Batch(records) => records.size_hint(),
            Kind::Set(messages) => messages.size_hint(),
        }
    }
}

impl std::iter::FusedIterator for Records<'_> {}

/// The records of a batch of magic 2.
#[derive(Debug)]
struct BatchRecords<'s> {
    rest: Cursor<'s>,
    base: Offset,
    last: Offset,
    /// The smallest delta that the next record may have.
    next_delta: i64,
    timestamps: Timestamps,
    count: u32,
    index: u32,
}

#[derive(Debug, Clone, Copy)]
enum Timestamps {
    /// CreateTime: relative to this. Also with a delete horizon, as the cleaner rewrites the deltas.
    From(Timestamp),
    /// LogAppendTime: the same for every record, whatever the deltas say (KAFKA-5353).
    All(Timestamp),
}

impl<'s> BatchRecords<'s> {
    fn new(header: &Header, payload: &'s [u8]) -> Result<Self, BatchError> {
        let count = header.record_count.unwrap_or(0);
        if !fits(count, payload.len()) {
            let got = i32::try_from(count).unwrap_or(i32::MAX);
            return Err(BatchError::RecordCount { got, most: payload.len() / MIN_RECORD_LEN });
        }
        Ok(Self {
            rest: Cursor::new(payload),
            base: header.first_known(),
            last: header.last_offset,
            next_delta: 0,
            timestamps: match header.timestamp_type {
                TimestampType::LogAppendTime => Timestamps::All(header.max_timestamp),
                _ => Timestamps::From(header.base_timestamp),
            },
            count,
            index: 0,
        })
    }

    #[inline]
    fn next(&mut self) -> Option<Result<Record<'s>, BatchError>> {
        if self.index >= self.count {
            return self.finish();
        }
        let result = self.read();
        match result {
            Ok(_) => self.index = self.index.wrapping_add(1),
            Err(_) => self.stop(),
        }
        Some(result)
    }

    #[inline(always)]
    fn read(&mut self) -> Result<Record<'s>, BatchError> {
        let stored = StoredRecord::read(&mut self.rest)
            .map_err(|fault| BatchError::Record { index: self.index, fault })?;
        let delta = i64::from(stored.offset_delta);
        let offset = self.base.plus(delta);
        if delta < self.next_delta || offset > self.last {
            return Err(self.misplaced(delta));
        }
        self.next_delta = delta.saturating_add(1);
        Ok(Record {
            offset,
            timestamp: match self.timestamps {
                Timestamps::From(base) => Timestamp(base.0.wrapping_add(stored.timestamp_delta)),
                Timestamps::All(timestamp) => timestamp,
            },
            key: stored.key,
            value: stored.value,
            headers: stored.headers,
        })
    }

    #[cold]
    fn misplaced(&self, delta: i64) -> BatchError {
        let got = self.base.plus(delta);
        if delta < 0 || got > self.last {
            return BatchError::OffsetRange { first: self.base, last: self.last, got: got.0 };
        }
        BatchError::OffsetOrder { before: self.base.plus(self.next_delta.saturating_sub(1)), got }
    }

    /// Bytes after the last record are an error, said once.
    fn finish(&mut self) -> Option<Result<Record<'s>, BatchError>> {
        let got = self.rest.rest().len();
        self.stop();
        (got > 0).then_some(Err(BatchError::LeftOver { got }))
    }

    fn stop(&mut self) {
        self.count = 0;
        self.rest = Cursor::new(&[]);
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.count.saturating_sub(self.index);
        (0, usize::try_from(left).ok().and_then(|left| left.checked_add(1)))
    }
}
