//! Counts of a launch: instructions, bytes, conflicts, flops.

use crate::ptx::program::Class;

/// What a launch did, in numbers. All bytes are bytes; a request is one instruction of one warp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts {
    warp_by_class: [u64; Class::COUNT],
    thread_by_class: [u64; Class::COUNT],
    /// Bytes that lanes read from global memory, and wrote.
    pub global_read: u64,
    /// Bytes that lanes wrote to global memory.
    pub global_written: u64,
    /// Bytes of global memory read at least once (needs checks).
    pub global_unique_read: u64,
    /// Bytes of global memory written at least once (needs checks).
    pub global_unique_written: u64,
    /// Load requests to global memory.
    pub global_read_requests: u64,
    /// Store and atomic requests to global memory.
    pub global_write_requests: u64,
    /// 32-byte sectors of the load requests.
    pub global_read_sectors: u64,
    /// 32-byte sectors of the store and atomic requests.
    pub global_write_sectors: u64,
    /// Bytes that lanes read from shared memory.
    pub shared_read: u64,
    /// Bytes that lanes wrote to shared memory.
    pub shared_written: u64,
    /// Requests to shared memory.
    pub shared_requests: u64,
    /// Passes over the banks that they took.
    pub shared_wavefronts: u64,
    /// Passes beyond what the same bytes take without bank conflicts.
    pub shared_conflicts: u64,
    /// Bytes moved by bulk and tensor copies.
    pub tensor_bytes: u64,
    /// Floating-point (or integer) operations of matrix instructions, two per multiply-add.
    pub matrix_flops: u64,
    /// Arrivals of warps at barriers of a block or cluster.
    pub barrier_arrivals: u64,
    /// Completed phases of these barriers.
    pub barrier_phases: u64,
    /// Executed waits and tests of mbarriers.
    pub mbarrier_tests: u64,
    /// Those that found their phase complete.
    pub mbarrier_waits: u64,
    /// Those that did not.
    pub mbarrier_retries: u64,
}

impl Default for Counts {
    fn default() -> Self {
        Counts {
            warp_by_class: [0; Class::COUNT],
            thread_by_class: [0; Class::COUNT],
            global_read: 0,
            global_written: 0,
            global_unique_read: 0,
            global_unique_written: 0,
            global_read_requests: 0,
            global_write_requests: 0,
            global_read_sectors: 0,
            global_write_sectors: 0,
            shared_read: 0,
            shared_written: 0,
            shared_requests: 0,
            shared_wavefronts: 0,
            shared_conflicts: 0,
            tensor_bytes: 0,
            matrix_flops: 0,
            barrier_arrivals: 0,
            barrier_phases: 0,
            mbarrier_tests: 0,
            mbarrier_waits: 0,
            mbarrier_retries: 0,
        }
    }
}

impl Counts {
    /// Instructions executed by warps.
    pub fn warp_instructions(&self) -> u64 {
        self.warp_by_class.iter().sum()
    }

    /// Instructions executed by threads.
    pub fn thread_instructions(&self) -> u64 {
        self.thread_by_class.iter().sum()
    }

    /// Warp instructions of a class by its name in the JSON, for example `load_global`.
    pub fn class(&self, name: &str) -> Option<u64> {
        let i = Class::NAMES.iter().position(|n| *n == name)?;
        Some(self.warp_by_class[i])
    }

    #[inline(always)]
    pub(crate) fn instruction(&mut self, class: Class, lanes: u32) {
        self.warp_by_class[class as usize] += 1;
        self.thread_by_class[class as usize] += lanes as u64;
    }

    /// Counts a shared-memory request: `n` bytes for each lane of `m` at the low 24 bits of its address.
    pub(crate) fn shared_access(&mut self, addr: &[u64; 32], m: u32, n: usize, write: bool) {
        let lanes = m.count_ones() as u64;
        if write {
            self.shared_written += lanes * n as u64;
        } else {
            self.shared_read += lanes * n as u64;
        }
        self.shared_requests += 1;
        // A pass serves 128 bytes: 32 lanes of 4, 16 of 8 or 8 of 16 bytes.
        let per_pass = (128 / n.max(4)).clamp(1, 32);
        let mut list = [0u32; 32];
        let mut count = 0;
        for (l, a) in addr.iter().enumerate() {
            if m >> l & 1 == 1 {
                list[count] = (*a & 0xff_ffff) as u32 / 4;
                count += 1;
            }
        }
        let words = n.div_ceil(4) as u32;
        for group in list[..count].chunks(per_pass) {
            let worst = wavefronts(group, words);
            self.shared_wavefronts += worst;
            self.shared_conflicts += worst - 1;
        }
    }

    /// Adds the counts of another part of the launch.
    pub(crate) fn add(&mut self, o: &Counts) {
        for i in 0..Class::COUNT {
            self.warp_by_class[i] += o.warp_by_class[i];
            self.thread_by_class[i] += o.thread_by_class[i];
        }
        let mut values = o.fields().into_iter();
        for x in self.fields_mut() {
            *x += values.next().map_or(0, |v| v.1);
        }
    }

    fn fields(&self) -> [(&'static str, u64); 20] {
        [
            ("global_read_bytes", self.global_read),
            ("global_written_bytes", self.global_written),
            ("global_unique_read_bytes", self.global_unique_read),
            ("global_unique_written_bytes", self.global_unique_written),
            ("global_read_requests", self.global_read_requests),
            ("global_write_requests", self.global_write_requests),
            ("global_read_sectors", self.global_read_sectors),
            ("global_write_sectors", self.global_write_sectors),
            ("shared_read_bytes", self.shared_read),
            ("shared_written_bytes", self.shared_written),
            ("shared_requests", self.shared_requests),
            ("shared_wavefronts", self.shared_wavefronts),
            ("shared_bank_conflicts", self.shared_conflicts),
            ("tensor_copy_bytes", self.tensor_bytes),
            ("matrix_flops", self.matrix_flops),
            ("barrier_arrivals", self.barrier_arrivals),
            ("barrier_phases", self.barrier_phases),
            ("mbarrier_tests", self.mbarrier_tests),
            ("mbarrier_waits", self.mbarrier_waits),
            ("mbarrier_retries", self.mbarrier_retries),
        ]
    }

    fn fields_mut(&mut self) -> [&mut u64; 20] {
        [
            &mut self.global_read,
            &mut self.global_written,
            &mut self.global_unique_read,
            &mut self.global_unique_written,
            &mut self.global_read_requests,
            &mut self.global_write_requests,
            &mut self.global_read_sectors,
            &mut self.global_write_sectors,
            &mut self.shared_read,
            &mut self.shared_written,
            &mut self.shared_requests,
            &mut self.shared_wavefronts,
            &mut self.shared_conflicts,
            &mut self.tensor_bytes,
            &mut self.matrix_flops,
            &mut self.barrier_arrivals,
            &mut self.barrier_phases,
            &mut self.mbarrier_tests,
            &mut self.mbarrier_waits,
            &mut self.mbarrier_retries,
        ]
    }

    /// The counts as one JSON object: totals, then instructions by class.
    pub fn to_json(&self) -> String {
        let mut s = format!(
            "{{\"warp_instructions\":{},\"thread_instructions\":{}",
            self.warp_instructions(),
            self.thread_instructions()
        );
        for (name, v) in self.fields() {
            s += &format!(",\"{name}\":{v}");
        }
        s += ",\"classes\":{";
        let mut first = true;
        for (i, name) in Class::NAMES.iter().enumerate() {
            if self.warp_by_class[i] > 0 {
                let comma = if first { "" } else { "," };
                s += &format!("{comma}\"{name}\":[{},{}]", self.warp_by_class[i], self.thread_by_class[i]);
                first = false;
            }
        }
        s + "}}"
    }
}

/// Passes over the banks for one group of lanes, each of which touches `words` words from `first[lane]`.
fn wavefronts(first: &[u32], words: u32) -> u64 {
    // Usually no bank has two words.
    let mut word_of = [u32::MAX; 32];
    let all = || first.iter().flat_map(|f| *f..*f + words);
    let clash = all().any(|word| {
        let w = &mut word_of[(word % 32) as usize];
        let clash = *w != u32::MAX && *w != word;
        *w = word;
        clash
    });
    if !clash {
        return 1;
    }
    let mut seen = [[u32::MAX; 32]; 32];
    let mut depth = [0u8; 32];
    let mut worst = 1;
    for word in all() {
        let bank = (word % 32) as usize;
        let d = depth[bank] as usize;
        if !seen[bank][..d].contains(&word) && d < 32 {
            seen[bank][d] = word;
            depth[bank] += 1;
            worst = worst.max(depth[bank] as u64);
        }
    }
    worst
}
