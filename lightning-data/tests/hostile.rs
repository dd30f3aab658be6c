//! Readers of files from elsewhere meet any bytes: an error or an answer, never a panic, and no allocation that the file's
//! size does not explain. A process of its own, because it counts what is allocated.

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use lightning_data::indexed::{IndexedDataset, IndexedWriter, TokenType, bin_path, idx_path};
use proptest::prelude::*;
use proptest::sample::Index;

/// The largest request since it was last set to 0.
static LARGEST: AtomicUsize = AtomicUsize::new(0);

struct Watching;

// SAFETY: every call is handed on to the system's allocator unchanged, which upholds the contract.
unsafe impl GlobalAlloc for Watching {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller's.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller's.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller's.
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        LARGEST.fetch_max(size, Ordering::Relaxed);
        // SAFETY: as the caller's.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Watching = Watching;

/// One test at a time: the counter is one.
static TURN: Mutex<()> = Mutex::new(());

/// What readers may hold beside the file: buffers and decoders of fixed sizes.
const FIXED: usize = 1 << 20;

/// Runs `work`; panics of a library are caught by the reader, and must not be printed thousands of times.
fn largest_request(work: impl FnOnce()) -> usize {
    LARGEST.store(0, Ordering::Relaxed);
    std::panic::set_hook(Box::new(|_| {}));
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    let _ = std::panic::take_hook();
    assert!(ended.is_ok(), "a reader panicked");
    LARGEST.load(Ordering::Relaxed)
}

fn scratch(name: &str) -> PathBuf {
    let directory = std::env::temp_dir().join(format!("lightning-hostile-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

/// Bytes changed, put in and cut off, anywhere.
#[derive(Clone, Debug)]
struct Damage {
    changes: Vec<(Index, Vec<u8>)>,
    cut: Option<Index>,
}

fn damage() -> impl Strategy<Value = Damage> {
    let bytes = prop_oneof![
        prop::collection::vec(any::<u8>(), 1..9),
        Just(vec![0xFF; 8]),
        Just(vec![0xFF, 0xFF, 0xFF, 0x7F]),
        Just(vec![0xFE, 0xFF, 0xFF, 0xFF, 0x0F]),
    ];
    let changes = prop::collection::vec((any::<Index>(), bytes), 1..4);
    (changes, prop::option::weighted(0.2, any::<Index>())).prop_map(|(changes, cut)| Damage { changes, cut })
}

impl Damage {
    fn apply(&self, fresh: &[u8]) -> Vec<u8> {
        let mut bytes = fresh.to_vec();
        for (at, new) in &self.changes {
            let at = at.index(bytes.len());
            let n = new.len().min(bytes.len() - at);
            bytes[at..at + n].copy_from_slice(&new[..n]);
        }
        if let Some(cut) = &self.cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        bytes
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn token_files_of_any_bytes(damage in damage(), of_index in any::<bool>()) {
        let _turn = TURN.lock().unwrap_or_else(|e| e.into_inner());
        let directory = scratch("idx");
        let prefix = directory.join("x");
        let mut writer = IndexedWriter::create(&prefix, TokenType::I32).unwrap();
        for n in [3usize, 0, 40, 7] {
            writer.add_document(&vec![5i32; n]).unwrap();
        }
        writer.finish().unwrap();
        let path = if of_index { idx_path(&prefix) } else { bin_path(&prefix) };
        let bytes = damage.apply(&std::fs::read(&path).unwrap());
        std::fs::write(&path, &bytes).unwrap();
        let largest = largest_request(|| {
            for open in [IndexedDataset::open, IndexedDataset::open_validated] {
                let Ok(data) = open(&prefix) else { continue };
                for s in (0..data.len().min(50)).chain([data.len(), u64::MAX]) {
                    let _ = data.read(s);
                }
            }
        });
        let size = bytes.len() + std::fs::metadata(bin_path(&prefix)).unwrap().len() as usize;
        prop_assert!(largest <= size + 16384, "{largest} bytes for files of {size}");
        std::fs::remove_dir_all(directory).unwrap();
    }
}

#[cfg(feature = "parquet")]
mod parquet {
    use super::*;
    use std::sync::Arc;

    use ::parquet::data_type::{ByteArray, ByteArrayType};
    use ::parquet::file::properties::WriterProperties;
    use ::parquet::file::writer::SerializedFileWriter;
    use ::parquet::schema::parser::parse_message_type;
    use lightning_data::prep::BadRows;
    use lightning_data::sft::{
        OfflinePacks, Pack, PreparedPacks, read_offline, read_prepared, write_offline, write_prepared,
    };
    use lightning_data::tokenizer::{TrainingSettings, train_on_rows};

    /// A file with one column of texts, with a dictionary or plain.
    fn texts(path: &std::path::Path, dictionary: bool) {
        let schema = Arc::new(parse_message_type("message m { optional binary text (UTF8); }").unwrap());
        let properties = WriterProperties::builder().set_dictionary_enabled(dictionary).build();
        let file = std::fs::File::create(path).unwrap();
        let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties)).unwrap();
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let values: Vec<ByteArray> = (0..60).map(|i| format!("the text of row {}", i % 17).as_str().into()).collect();
        let definitions: Vec<i16> = (0..64).map(|i| i16::from(i % 16 != 3)).collect();
        column.typed::<ByteArrayType>().write_batch(&values, Some(&definitions), None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
        writer.close().unwrap();
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn packed_files_of_any_bytes(damage in damage(), offline in any::<bool>()) {
            let _turn = TURN.lock().unwrap_or_else(|e| e.into_inner());
            let directory = scratch("parquet");
            let path = directory.join("x.parquet");
            let pack = |i: i32| {
                let input_ids: Vec<i32> = (0..50).map(|j| i * 7919 + j * 31).collect();
                Pack { input_ids, loss_mask: vec![1; 50], seq_start_id: vec![0, 20] }
            };
            let packs: Vec<Pack> = (0..20).map(pack).collect();
            match offline {
                true => write_offline(&path, &OfflinePacks(packs)).unwrap(),
                false => write_prepared(&path, &PreparedPacks(packs), 7).unwrap(),
            }
            let fresh = std::fs::read(&path).unwrap();
            std::fs::write(&path, damage.apply(&fresh)).unwrap();
            let largest = largest_request(|| {
                let _ = (read_offline(&path), read_prepared(&path));
            });
            prop_assert!(largest <= FIXED + 32 * fresh.len(), "{largest} bytes for a file of {}", fresh.len());
            std::fs::remove_dir_all(directory).unwrap();
        }

        #[test]
        fn text_files_of_any_bytes(damage in damage(), dictionary in any::<bool>()) {
            let _turn = TURN.lock().unwrap_or_else(|e| e.into_inner());
            let directory = scratch("texts");
            let path = directory.join("x.parquet");
            texts(&path, dictionary);
            let fresh = std::fs::read(&path).unwrap();
            let inputs = [path.display().to_string()];
            let read = || train_on_rows(&inputs, "text", BadRows::Skip, &TrainingSettings::new(257)).map(|(_, read)| read);
            prop_assert_eq!(read().unwrap().texts, 60);
            let honest = largest_request(|| drop(read()));
            std::fs::write(&path, damage.apply(&fresh)).unwrap();
            let largest = largest_request(|| drop(read()));
            prop_assert!(largest <= honest.max(FIXED) + 32 * fresh.len(), "{largest} bytes for {}", fresh.len());
            std::fs::remove_dir_all(directory).unwrap();
        }
    }
}
