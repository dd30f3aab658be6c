//! Rectangles and ranges of tensors, and copies between them. Everything here is in elements of the global tensor.

use std::fmt;

/// A rectangle: where it begins and how far it goes along each dimension. Its elements are stored row by row.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rect {
    /// First element along each dimension.
    pub offsets: Vec<usize>,
    /// Elements along each dimension.
    pub extent: Vec<usize>,
}

impl Rect {
    /// All of a tensor.
    pub fn whole(shape: &[usize]) -> Self {
        Self { offsets: vec![0; shape.len()], extent: shape.to_vec() }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.extent.iter().product()
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the rectangle lies inside a tensor of this shape.
    pub fn fits(&self, shape: &[usize]) -> bool {
        self.offsets.len() == shape.len()
            && self.extent.len() == shape.len()
            && (0..shape.len()).all(|d| self.offsets[d].checked_add(self.extent[d]).is_some_and(|end| end <= shape[d]))
    }

    /// What two rectangles of one tensor share.
    pub fn intersect(&self, other: &Self) -> Option<Self> {
        let mut both = Self { offsets: Vec::new(), extent: Vec::new() };
        for d in 0..self.offsets.len() {
            let start = self.offsets[d].max(other.offsets[d]);
            let end = (self.offsets[d] + self.extent[d]).min(other.offsets[d] + other.extent[d]);
            if end <= start {
                return None;
            }
            both.offsets.push(start);
            both.extent.push(end - start);
        }
        (!both.is_empty()).then_some(both)
    }

    /// Calls `f(position in self, position in other, length)` for every run of elements of `shared` that is contiguous in
    /// both; `shared` lies in both.
    fn runs(&self, other: &Self, shared: &Self, mut f: impl FnMut(usize, usize, usize)) {
        let rank = shared.extent.len();
        // Trailing dimensions that both rectangles span completely belong to one run, and one more that need not be.
        let mut split = rank;
        let mut run = 1;
        while split > 0 {
            split -= 1;
            run *= shared.extent[split];
            if self.extent[split] != shared.extent[split] || other.extent[split] != shared.extent[split] {
                break;
            }
        }
        let place = |rect: &Self, index: &[usize]| {
            let mut at = 0;
            for d in 0..rank {
                let inside = shared.offsets[d] - rect.offsets[d] + index.get(d).copied().unwrap_or(0);
                at = at * rect.extent[d] + inside;
            }
            at
        };
        let mut index = vec![0; split];
        loop {
            f(place(self, &index), place(other, &index), run);
            let mut d = split;
            loop {
                if d == 0 {
                    return;
                }
                d -= 1;
                index[d] += 1;
                if index[d] < shared.extent[d] {
                    break;
                }
                index[d] = 0;
            }
        }
    }

    /// Calls `f(position in the rectangle, position in the flattened tensor, length)` for the runs of elements `low .. high`
    /// of the rectangle that follow each other in a tensor of this shape.
    pub fn flat_runs(&self, shape: &[usize], low: usize, high: usize, mut f: impl FnMut(usize, usize, usize)) {
        let mut split = shape.len();
        let mut run = 1;
        while split > 0 {
            split -= 1;
            run *= self.extent[split];
            if self.extent[split] != shape[split] {
                break;
            }
        }
        let mut at = low;
        while at < high {
            let (mut index, inside) = (at / run, at % run);
            let n = (run - inside).min(high - at);
            // Coordinates of the run's first element, from the last leading dimension to the first.
            let (mut flat, mut stride) = (0, 1);
            for d in (0..shape.len()).rev() {
                let mut coordinate = self.offsets[d];
                if d < split {
                    coordinate += index % self.extent[d];
                    index /= self.extent[d];
                }
                flat += coordinate * stride;
                stride *= shape[d];
            }
            f(at, flat + inside, n);
            at += n;
        }
    }

    /// How many elements of the rectangle come before element `flat` of a tensor of this shape, row by row.
    pub fn count_before(&self, shape: &[usize], flat: usize) -> usize {
        if self.is_empty() {
            return 0;
        }
        let mut rest = flat;
        let mut strides = vec![1; shape.len()];
        for d in (1..shape.len()).rev() {
            strides[d - 1] = strides[d] * shape[d];
        }
        let mut count = 0;
        let mut volume = self.len();
        if shape.is_empty() {
            return usize::from(flat > 0);
        }
        for d in 0..shape.len() {
            volume /= self.extent[d];
            let at = rest / strides[d];
            rest %= strides[d];
            if at < self.offsets[d] {
                return count;
            }
            let inside = at - self.offsets[d];
            if inside >= self.extent[d] {
                return count + self.extent[d] * volume;
            }
            count += inside * volume;
        }
        count
    }
}

impl fmt::Display for Rect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}+{:?}", self.offsets, self.extent)
    }
}

/// Elements `low .. high` of a rectangle's own storage as rectangles of the tensor, in order.
pub fn part_of(rect: &Rect, low: usize, high: usize) -> Vec<Rect> {
    let mut parts = Region::Flat { start: low, len: high - low }.rects(&rect.extent);
    for part in &mut parts {
        for (inside, outer) in part.offsets.iter_mut().zip(&rect.offsets) {
            *inside += outer;
        }
    }
    parts
}

/// Copies what two rectangles share from the bytes of one to those of the other. Returns the number of elements.
pub fn copy_shared(from: &Rect, source: &[u8], to: &Rect, target: &mut [u8], element: usize) -> usize {
    let Some(shared) = from.intersect(to) else { return 0 };
    from.runs(to, &shared, |a, b, n| {
        target[b * element..(b + n) * element].copy_from_slice(&source[a * element..(a + n) * element]);
    });
    shared.len()
}

/// A part of a tensor that a file or a rank holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Region {
    /// A rectangle.
    Rect(Rect),
    /// `len` elements of the flattened tensor from `start` on.
    Flat {
        /// First element.
        start: usize,
        /// Number of elements.
        len: usize,
    },
}

impl Region {
    /// All of a tensor.
    pub fn whole(shape: &[usize]) -> Self {
        Self::Rect(Rect::whole(shape))
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::Rect(rect) => rect.len(),
            Self::Flat { len, .. } => *len,
        }
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the region lies inside a tensor of this shape.
    pub fn fits(&self, shape: &[usize]) -> bool {
        match self {
            Self::Rect(rect) => rect.fits(shape),
            Self::Flat { start, len } => {
                start.checked_add(*len).is_some_and(|end| end <= shape.iter().product::<usize>())
            }
        }
    }

    /// The region as rectangles in the order of its elements.
    pub fn rects(&self, shape: &[usize]) -> Vec<Rect> {
        match self {
            Self::Rect(rect) => vec![rect.clone()],
            Self::Flat { len: 0, .. } => Vec::new(),
            Self::Flat { start, len } => {
                let mut found = Vec::new();
                cut(shape, *start, start + len, &mut Vec::new(), &mut found);
                found
            }
        }
    }

    /// The key of the region in a file: `SECTION/NAME@OFFSET_OFFSET`, or `@START+LEN` for a range.
    pub fn key(&self, name: &str) -> String {
        match self {
            Self::Rect(rect) => {
                let offsets: Vec<String> = rect.offsets.iter().map(|o| o.to_string()).collect();
                format!("{name}@{}", offsets.join("_"))
            }
            Self::Flat { start, len } => format!("{name}@{start}+{len}"),
        }
    }
}

/// Elements `start .. end` (at least one) of a flattened tensor as rectangles; `prefix` holds the leading coordinates.
fn cut(shape: &[usize], start: usize, end: usize, prefix: &mut Vec<usize>, out: &mut Vec<Rect>) {
    let Some((_, rest)) = shape.split_first() else {
        out.push(Rect { offsets: prefix.clone(), extent: vec![1; prefix.len()] });
        return;
    };
    let row: usize = rest.iter().product();
    let first = start / row;
    let mut inside = |row_index: usize, from: usize, to: usize, out: &mut Vec<Rect>| {
        prefix.push(row_index);
        cut(rest, from, to, prefix, out);
        prefix.pop();
    };
    if first == (end - 1) / row && end - start < row {
        return inside(first, start % row, start % row + end - start, out);
    }
    if start % row != 0 {
        inside(first, start % row, row, out);
        return cut(shape, (first + 1) * row, end, prefix, out);
    }
    let whole = end / row - first;
    let mut rect = Rect { offsets: prefix.clone(), extent: vec![1; prefix.len()] };
    rect.offsets.push(first);
    rect.extent.push(whole);
    rect.offsets.extend(rest.iter().map(|_| 0));
    rect.extent.extend(rest);
    out.push(rect);
    if end % row != 0 {
        prefix.push(end / row);
        cut(rest, 0, end % row, prefix, out);
        prefix.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shapes() -> impl Strategy<Value = Vec<usize>> {
        prop::collection::vec(1usize..6, 0..4)
    }

    fn flat_of(shape: &[usize], rect: &Rect) -> Vec<usize> {
        let all: Vec<u8> = (0..shape.iter().product::<usize>()).flat_map(|i| (i as u32).to_le_bytes()).collect();
        let mut out = vec![0; rect.len() * 4];
        assert_eq!(copy_shared(&Rect::whole(shape), &all, rect, &mut out, 4), rect.len());
        out.as_chunks::<4>().0.iter().map(|b| u32::from_le_bytes(*b) as usize).collect()
    }

    proptest! {
        #[test]
        fn ranges_become_disjoint_rectangles_in_order(shape in shapes(), a in 0usize..200, b in 0usize..200) {
            let n: usize = shape.iter().product();
            let (start, end) = (a.min(b) % (n + 1), (a.max(b) % (n + 1)).max(a.min(b) % (n + 1)));
            let region = Region::Flat { start, len: end - start };
            let rects = region.rects(&shape);
            let elements: Vec<usize> = rects.iter().flat_map(|r| flat_of(&shape, r)).collect();
            prop_assert_eq!(elements, (start..end).collect::<Vec<_>>());
            prop_assert!(rects.len() <= (2 * shape.len()).max(1));
        }

        #[test]
        fn counting_before_agrees_with_listing(shape in shapes(), seed in any::<u64>()) {
            let mut bits = seed;
            let mut pick = |n: usize| { bits = bits.rotate_left(17).wrapping_mul(0x9E37_79B9_7F4A_7C15); (bits >> 33) as usize % n };
            let mut rect = Rect::whole(&shape);
            for (d, n) in shape.iter().enumerate() {
                rect.offsets[d] = pick(*n);
                rect.extent[d] = 1 + pick(n - rect.offsets[d]);
            }
            let elements = flat_of(&shape, &rect);
            for flat in 0..=shape.iter().product::<usize>() {
                prop_assert_eq!(rect.count_before(&shape, flat), elements.iter().filter(|e| **e < flat).count());
            }
        }
    }

    #[test]
    fn rectangles_that_leave_the_tensor_do_not_fit() {
        let rect = |offsets: &[usize], extent: &[usize]| Rect { offsets: offsets.into(), extent: extent.into() };
        assert!(rect(&[1, 0], &[1, 3]).fits(&[2, 3]));
        assert!(!rect(&[1, 0], &[2, 3]).fits(&[2, 3]));
        assert!(!rect(&[usize::MAX, 0], &[2, 3]).fits(&[2, 3]));
        assert!(!rect(&[0], &[2]).fits(&[2, 3]));
        assert!(!Region::Flat { start: usize::MAX, len: 2 }.fits(&[2, 3]));
        assert_eq!(rect(&[0, 0], &[1, 1]).intersect(&rect(&[1, 0], &[1, 1])), None);
    }
}
