//! Zstandard input of any number of frames, as a reader.

use std::io::{self, BufRead, Read};

/// All frames of a Zstandard file, one after another; skippable frames are skipped.
pub(super) struct ZstdFrames<R> {
    source: R,
    decoder: ruzstd::decoding::FrameDecoder,
    inside: bool,
}

/// What the usual command-line tool accepts without being told otherwise.
const LARGEST_WINDOW: u64 = 1 << 27;

impl<R: BufRead> ZstdFrames<R> {
    /// Starts at the first frame of `source`.
    pub(super) fn new(source: R) -> ZstdFrames<R> {
        let mut decoder = ruzstd::decoding::FrameDecoder::new();
        decoder.set_max_window_size(LARGEST_WINDOW);
        ZstdFrames { source, decoder, inside: false }
    }
}

impl<R: BufRead> Read for ZstdFrames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        use ruzstd::decoding::BlockDecodingStrategy::UptoBlocks;
        use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
        let broken = |e: FrameDecoderError| io::Error::new(io::ErrorKind::InvalidData, e.to_string());
        loop {
            if self.inside {
                while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                    self.decoder.decode_blocks(&mut self.source, UptoBlocks(1)).map_err(broken)?;
                }
                if self.decoder.can_collect() > 0 {
                    return self.decoder.read(buffer);
                }
                let (stored, computed) =
                    (self.decoder.get_checksum_from_data(), self.decoder.get_calculated_checksum());
                if let (Some(stored), Some(computed)) = (stored, computed)
                    && stored != computed
                {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame's checksum differs"));
                }
                self.inside = false;
            }
            if self.source.fill_buf()?.is_empty() {
                return Ok(0);
            }
            match self.decoder.reset(&mut self.source) {
                Ok(()) => self.inside = true,
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    let skipped = io::copy(&mut (&mut self.source).take(u64::from(length)), &mut io::sink())?;
                    if skipped < u64::from(length) {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(e) => return Err(broken(e)),
            }
        }
    }
}
