//! The nearest of the known names, for messages about unknown ones.

/// Edit distance that counts a swap of neighbours as one edit (optimal string alignment).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0usize; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    rows[0] = (0..=b.len()).collect();
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let change = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = change.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

/// Names longer than this are cut before comparing, so that hostile input costs nothing.
const LONGEST: usize = 200;

/// The `count` names of `known` that are nearest to `name`, best first. For dotted names the last part decides first, so
/// that `model.lr` finds `optimizer.lr`.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>, count: usize) -> Vec<String> {
    let name: String = name.chars().take(LONGEST).collect::<String>().to_lowercase().replace('-', "_");
    let last = |s: &str| s.rsplit('.').next().unwrap_or("").to_string();
    let name_last = last(&name);
    let mut scored: Vec<(usize, String)> = known
        .into_iter()
        .map(|candidate| {
            let plain = candidate.to_lowercase().replace('-', "_");
            let candidate_last = last(&plain);
            let whole = 2 * distance(&name, &plain);
            let other_section = if plain.split('.').next() == name.split('.').next() { 0 } else { 3 };
            let part = 2 * distance(&name_last, &candidate_last) + 1 + other_section;
            // A name that was typed as a piece of the real one ("bias_update_rate") is a good guess too.
            let piece = if name_last.len() >= 4 && candidate_last.contains(&name_last) { 4 } else { usize::MAX };
            (whole.min(part).min(piece), candidate.to_string())
        })
        .collect();
    scored.sort();
    scored.dedup_by(|a, b| a.1 == b.1);
    scored.into_iter().take(count).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_find_their_name() {
        let keys = ["optimizer.lr", "optimizer.min_lr", "train.train_iters", "model.moe_router_bias_update_rate"];
        assert_eq!(nearest("optimizer.rl", keys, 1), ["optimizer.lr"]);
        assert_eq!(nearest("model.lr", keys, 1), ["optimizer.lr"]);
        assert_eq!(nearest("train.trian_iters", keys, 1), ["train.train_iters"]);
        assert_eq!(nearest("model.bias_update_rate", keys, 1), ["model.moe_router_bias_update_rate"]);
        assert_eq!(nearest("", keys, 3).len(), 3);
        assert_eq!(nearest(&"x".repeat(100_000), keys, 2).len(), 2);
    }
}
