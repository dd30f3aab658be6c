//! Stopping and going on: signals in every phase, time limits, locks, kills at any moment.

mod scratch;

use lightning_core::rng::Philox;
use scratch::*;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

#[test]
fn b95_b96_signals_save_in_the_first_evaluation_and_the_resumed_run_does_it() {
    for name in ["TERM", "USR1", "INT"] {
        let s = Scratch::new(&format!("signal-evaluation-{name}"));
        let mut child = start(&s, &small(&s, &["logger.dir=run", "validation.eval_iters=1000000"]));
        wait_until(&mut child, "the run", || said(&s).contains("run folder"));
        std::thread::sleep(Duration::from_millis(150));
        signal(&child, name);
        assert_eq!(child.wait().unwrap().code(), Some(75), "{}", said(&s));
        assert!(said(&s).contains("stopped by a signal after step 0; start the same command again"), "{}", said(&s));
        assert_eq!(tracker(&s.path("run/checkpoints")), Some(0));
        let out = run(&s, &small(&s, &["logger.dir=run", "train.train_iters=1"]));
        expect(&out, 0, &["resuming after step 0", "validation after step 0", "done after step 1"]);
    }
}

#[test]
fn an_evaluation_that_was_cut_short_is_done_after_the_resume_and_nothing_else_changes() {
    let s = Scratch::new("signal-owed");
    let args = ["validation.eval_interval=2", "train.train_iters=4", "validation.eval_iters=60"];
    let with = |dir: &'static str| small(&s, &[&[dir], &args[..]].concat());
    expect(&run(&s, &with("logger.dir=whole")), 0, &[]);
    let mut child = start(&s, &with("logger.dir=parts"));
    let metrics = s.path("parts/metrics.jsonl");
    wait_until(&mut child, "step 2", || fs::read_to_string(&metrics).is_ok_and(|t| t.contains("\"iteration\":2,")));
    signal(&child, "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(75), "{}", said(&s));
    expect(&run(&s, &with("logger.dir=parts")), 0, &["resuming after step", "done after step 4"]);
    assert!(shard(&s.path("whole"), 4) == shard(&s.path("parts"), 4), "weights differ");
    let losses = |run: &str| -> Vec<(String, String)> {
        let all = events(&s.path(&format!("{run}/metrics.jsonl")), "validation");
        all.iter().map(|r| (r["iteration"].to_string(), r["lm loss"].to_string())).collect()
    };
    assert_eq!(losses("whole"), losses("parts"));
}

#[test]
fn b96_a_signal_while_data_is_prepared_or_the_model_is_made_asks_to_be_requeued() {
    let s = Scratch::new("signal-warm-up");
    let mut rng = Philox::new(11, 1);
    fs::create_dir_all(s.path("text")).unwrap();
    for file in 0..6 {
        let words: String = (0..60_000).map(|_| format!("{:x} ", rng.below(1 << 20))).collect();
        fs::write(s.path(&format!("text/{file}.txt")), words).unwrap();
    }
    let warm_up = ["logger.dir=run", "dataset.vocab_size=2000", "model.vocab_size=2000", "train.train_iters=100000"];
    let args = small(&s, &warm_up);
    let mut child = start(&s, &args);
    wait_until(&mut child, "the tokenizer", || said(&s).contains("training a byte-level BPE"));
    let sent = Instant::now();
    signal(&child, "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(75), "{}", said(&s));
    assert!(sent.elapsed() < Duration::from_secs(30));
    let nothing = said(&s).contains("nothing was lost");
    assert!(nothing || tracker(&s.path("run/checkpoints")).is_some(), "{}", said(&s));
}

#[test]
fn signals_while_saving_leave_a_whole_checkpoint() {
    let s = Scratch::new("signal-save");
    let mut rng = Philox::new(12, 1);
    let args = small(&s, &["logger.dir=run", "train.train_iters=100000", "checkpoint.save_interval=1"]);
    let mut last = 0;
    for round in 0..4 {
        let mut child = start(&s, &args);
        let checkpoints = s.path("run/checkpoints");
        wait_until(&mut child, "a checkpoint", || tracker(&checkpoints).is_some_and(|t| t > last));
        std::thread::sleep(Duration::from_millis(rng.below(40)));
        signal(&child, "USR1");
        assert_eq!(child.wait().unwrap().code(), Some(75), "round {round}: {}", said(&s));
        let now = tracker(&checkpoints).unwrap();
        assert!(now > last && said(&s).contains(&format!("after step {now};")), "{}", said(&s));
        last = now;
    }
}

#[test]
fn a_second_signal_ends_a_long_step_at_once_and_without_a_handler_the_first_one_does() {
    let s = Scratch::new("signal-twice");
    // A step of many micro-batches: the first signal waits for its end.
    let args = small(&s, &["logger.dir=run", "train.global_batch_size=40000", "validation.eval_interval=0"]);
    let mut child = start(&s, &args);
    wait_until(&mut child, "the run", || said(&s).contains("run folder"));
    std::thread::sleep(Duration::from_millis(300));
    signal(&child, "TERM");
    wait_until(&mut child, "an answer", || said(&s).contains("send it again"));
    let sent = Instant::now();
    signal(&child, "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(143), "{}", said(&s));
    assert!(sent.elapsed() < Duration::from_secs(5));
    assert_eq!(tracker(&s.path("run/checkpoints")), None);

    let off = small(&s, &["logger.dir=off", "train.train_iters=100000", "train.exit_signal_handler=false"]);
    let mut child = start(&s, &off);
    wait_until(&mut child, "the run", || said(&s).contains("run folder"));
    signal(&child, "TERM");
    assert_eq!(child.wait().unwrap().signal(), Some(15));
}

#[test]
fn a_time_limit_saves_and_asks_to_be_requeued() {
    let s = Scratch::new("time-limit");
    // A busy machine may need more than the first limits to get to its first step.
    for seconds in [2, 5, 15, 60] {
        let limit = format!("{seconds}s");
        let args = small(
            &s,
            &["logger.dir=run", "train.train_iters=1000000", "--exit-after", &limit, "checkpoint.save_interval=null"],
        );
        let begin = Instant::now();
        let out = run(&s, &args);
        expect(&out, 75, &["stopped by its time limit", "start the same command again"]);
        assert!(begin.elapsed() >= Duration::from_secs(seconds));
        if !String::from_utf8_lossy(&out.stderr).contains("before the first step") {
            break;
        }
    }
    assert!(tracker(&s.path("run/checkpoints")).is_some());
    expect(&run(&s, &small(&s, &["--exit-after", "soon"])), 2, &["train.exit_after", "soon", "3h50m"]);
}

#[test]
fn two_runs_do_not_share_a_folder() {
    let s = Scratch::new("lock");
    let args = small(&s, &["logger.dir=run", "train.train_iters=1000000"]);
    let mut child = start(&s, &args);
    wait_until(&mut child, "the run", || said(&s).contains("run folder"));
    let holder = format!("process {}", child.id());
    expect(&run(&s, &args), 2, &["run.lock", &holder, "logger.dir"]);
    let save = small(&s, &["logger.dir=other", "checkpoint.save=run"]);
    expect(&run(&s, &save), 2, &["run.lock", &holder]);
    child.kill().unwrap();
    child.wait().unwrap();
    let free = small(&s, &["logger.dir=run", "train.train_iters=1"]);
    expect(&run(&s, &free), 0, &[]);
}

#[test]
fn another_model_tokenizer_or_text_is_refused_with_its_differences() {
    let s = Scratch::new("foreign");
    expect(&run(&s, &small(&s, &["logger.dir=run", "train.train_iters=2"])), 0, &[]);
    let load = "checkpoint.load=run/checkpoints";
    let other = small(&s, &[load, "logger.dir=a", "model.hidden_size=64", "model.moe_router_topk=1"]);
    let out = run(&s, &other);
    expect(&out, 2, &["another model", "hidden_size: 32 in the checkpoint, 64 now"]);
    let out = run(&s, &small(&s, &[load, "logger.dir=b", "dataset.vocab_size=300"]));
    expect(&out, 2, &["another tokenizer", "tokenizer:", "text.vocabulary: 320 in the checkpoint, 300 now"]);
    fs::write(s.path("text/999.txt"), "one more document\n".repeat(30)).unwrap();
    expect(&run(&s, &small(&s, &[load, "logger.dir=c"])), 2, &["other data", "text:"]);
    let seeded = small(&s, &[load, "logger.dir=d", "checkpoint.finetune=true", "train.train_iters=1"]);
    expect(&run(&s, &seeded), 0, &["weights of", "done after step 1"]);
}

#[test]
fn b74_b75_resume_over_epochs_sees_the_tokens_of_the_run_that_did_not_stop() {
    let s = Scratch::new("epochs");
    corpus(&s.path("text"), 1, 100);
    let fixed = [
        "train.train_iters=16",
        "dataset.split=100,0,0",
        "validation.eval_interval=0",
        "checkpoint.save_interval=null",
    ];
    let with = |extra: &[&str]| small(&s, &[&fixed[..], extra].concat());
    expect(&run(&s, &with(&["logger.dir=whole"])), 0, &[]);
    for _ in 0..4 {
        expect(&run(&s, &with(&["logger.dir=parts", "train.exit_interval=4"])), 0, &[]);
    }
    let hashes = |run: &str| -> Vec<String> {
        steps(&s.path(&format!("{run}/metrics.jsonl"))).iter().map(|r| r["batch_hash"].to_string()).collect()
    };
    assert_eq!(hashes("whole"), hashes("parts"));
    assert!(shard(&s.path("whole"), 16) == shard(&s.path("parts"), 16), "weights differ");
    // The text is shorter than the run: it went round at least once.
    let corpus = fs::read_to_string(s.path("whole/run.json")).unwrap();
    let card: serde_json::Value = serde_json::from_str(&corpus).unwrap();
    assert!(card["data"]["corpus"]["tokens"].as_u64().unwrap() < 16 * 4 * 40, "{}", card["data"]);
}

#[test]
fn b77_a_checkpoint_without_its_optimizer_starts_it_fresh_and_strictly_not_at_all() {
    let s = Scratch::new("b77");
    let fixed = ["validation.eval_interval=0", "train.train_iters=4"];
    let with = |extra: &[&str]| small(&s, &[&fixed[..], extra].concat());
    expect(&run(&s, &with(&["logger.dir=run", "checkpoint.save_optim=false", "train.exit_interval=2"])), 0, &[]);
    for strict in ["--strict", "checkpoint.strict=true"] {
        let out = run(&s, &with(&["checkpoint.load=run/checkpoints", "logger.dir=strict", strict]));
        expect(&out, 3, &["iter_0000002 was saved without its optimizer states", "optim.m/", "--strict"]);
        assert!(!s.path("strict/checkpoints/iter_0000004").exists());
    }
    // Asked for nothing, refused nothing.
    let weights = with(&["checkpoint.load=run/checkpoints", "logger.dir=a", "--strict", "checkpoint.load_optim=false"]);
    expect(&run(&s, &weights), 0, &["done after step 4"]);
    let out = run(&s, &with(&["checkpoint.load=run/checkpoints", "logger.dir=b"]));
    expect(&out, 0, &["done after step 4"]);
    let text = String::from_utf8_lossy(&out.stderr);
    assert_eq!(text.matches("the optimizer starts fresh").count(), 1, "{text}");
    // The counters went on: the schedule did not begin again.
    let rates: Vec<f64> =
        steps(&s.path("b/metrics.jsonl")).iter().map(|r| r["learning_rate"].as_f64().unwrap()).collect();
    assert!(rates.len() == 2 && rates[0] > 0.0, "{rates:?}");
    // A whole checkpoint passes.
    expect(&run(&s, &with(&["logger.dir=full", "train.exit_interval=2"])), 0, &[]);
    expect(&run(&s, &with(&["logger.dir=full", "--strict"])), 0, &["resuming after step 2", "done after step 4"]);
}

#[test]
fn background_saves_are_the_same_checkpoints() {
    let s = Scratch::new("background");
    for (dir, extra) in
        [("logger.dir=now", "checkpoint.async_save=false"), ("logger.dir=later", "checkpoint.async_save=true")]
    {
        expect(&run(&s, &small(&s, &[dir, extra, "checkpoint.save_interval=1"])), 0, &["done after step 6"]);
    }
    for step in 1..=6 {
        assert!(shard(&s.path("now"), step) == shard(&s.path("later"), step), "step {step}");
    }
}

#[test]
fn verify_resume_passes_and_refuses_nonsense() {
    let s = Scratch::new("verify-resume");
    let train = small(&s, &[]);
    let line = |extra: &[&str]| -> Vec<String> {
        let words = ["verify", "resume"].iter().chain(extra).map(|w| w.to_string());
        words.chain(train[1..].iter().filter(|w| !w.starts_with("train.train_iters")).cloned()).collect()
    };
    let out = run(&s, &line(&["--steps", "2", "--folder", "kept", "--json"]));
    expect(&out, 0, &["equal, bit for bit"]);
    let result: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert!(result["equal"] == true && s.path("kept/parts/checkpoints/iter_0000004").is_dir(), "{result}");
    expect(&run(&s, &line(&["--folder", "kept"])), 2, &["already holds"]);
    expect(&run(&s, &line(&["--steps", "0"])), 2, &["--steps"]);
    let mut bad = line(&[]);
    bad.push("model.num_query_groups=3".into());
    expect(&run(&s, &bad), 2, &["a training run failed"]);
}

#[test]
fn forty_kills_lose_nothing_that_was_saved() {
    let s = Scratch::new("kill");
    let mut rng = Philox::new(40, u64::from(std::process::id()));
    let fixed = [
        "train.train_iters=100000",
        "checkpoint.save_interval=2",
        "checkpoint.most_recent_k=3",
        "validation.eval_interval=0",
    ];
    let with = |extra: &[&str]| small(&s, &[&fixed[..], extra].concat());
    let checkpoints = s.path("run/checkpoints");
    let metrics = s.path("run/metrics.jsonl");
    let length = || fs::metadata(&metrics).map_or(0, |m| m.len());
    let mut last = 0;
    for round in 0..40 {
        let before = length();
        let async_save = if round % 2 == 0 { "checkpoint.async_save=false" } else { "checkpoint.async_save=true" };
        let mut child = start(&s, &with(&["logger.dir=run", async_save]));
        // Anywhere in the start, in the first steps, or (so that the run gets on) behind a new checkpoint.
        match round % 4 {
            3 => {}
            2 => wait_until(&mut child, "steps", || length() > before + 700),
            _ => wait_until(&mut child, "a checkpoint", || tracker(&checkpoints).is_some_and(|t| t > last)),
        }
        std::thread::sleep(Duration::from_micros(rng.below(80_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        let text = said(&s);
        assert!(!text.contains("error:") && !text.contains("panicked"), "round {round}: {text}");
        let now = tracker(&checkpoints).unwrap_or(0);
        assert!(now >= last, "round {round}: the tracker fell from {last} to {now}");
        if last > 0 {
            assert!(round % 4 == 3 || text.contains(&format!("resuming after step {last} ")), "round {round}: {text}");
        }
        last = now;
    }
    let end = last + 2;
    let stop = format!("train.exit_interval={end}");
    expect(&run(&s, &with(&["logger.dir=run", &stop])), 0, &[&format!("resuming after step {last}")]);
    expect(&run(&s, &with(&["logger.dir=whole", &stop])), 0, &[]);
    assert!(
        shard(&s.path("run"), end) == shard(&s.path("whole"), end),
        "weights differ after {end} steps and 40 kills"
    );
}

#[test]
fn full_disks_lose_nothing() {
    let s = Scratch::new("full-metrics");
    fs::create_dir_all(s.path("run")).unwrap();
    std::os::unix::fs::symlink("/dev/full", s.path("run/metrics.jsonl")).unwrap();
    let out = run(&s, &small(&s, &["logger.dir=run"]));
    expect(&out, 3, &["metrics.jsonl", "No space left"]);
    // A disk that fills up later: the limit on file sizes stops the growing log, the small checkpoint still fits.
    let tiny = small(
        &s,
        &[
            "logger.dir=later",
            "train.train_iters=100000",
            "checkpoint.save_interval=null",
            "checkpoint.save_optim=false",
        ],
    );
    let out = std::process::Command::new("bash")
        .args(["-c", "trap '' XFSZ; ulimit -f 300; exec \"$0\" \"$@\""])
        .arg(env!("CARGO_BIN_EXE_lightning-train"))
        .args(&tiny)
        .current_dir(&s.0)
        .env("LIGHTNING_CACHE", s.path("cache"))
        .output()
        .unwrap();
    expect(&out, 3, &["later/", "is saved, resume from it"]);
    assert!(tracker(&s.path("later/checkpoints")).is_some_and(|step| step > 10));
}

#[test]
fn a_full_file_system_leaves_the_last_good_checkpoint_and_more_room_goes_on() {
    let s = Scratch::new("tmpfs");
    let inside = |script: &str, args: &[String]| {
        let mut command = std::process::Command::new("unshare");
        command.args(["-r", "-m", "bash", "-c", script, env!("CARGO_BIN_EXE_lightning-train")]).args(args);
        command.current_dir(&s.0).env("LIGHTNING_CACHE", s.path("cache")).output()
    };
    fs::create_dir_all(s.path("disk")).unwrap();
    let mount = "mount -t tmpfs -o size=900k tmpfs disk";
    if !inside(mount, &[]).is_ok_and(|out| out.status.success()) {
        // Mounting is not allowed here; the tests with limits on file sizes stand for it.
        return;
    }
    // A checkpoint takes over 600 kB: one fits, a second one does not, until there is more room.
    let script = format!(
        "{mount} && cd disk && \"$0\" \"$@\"; echo \"first $?\"; cat run/checkpoints/latest_checkpointed_iteration.txt; echo; \
         ls run/checkpoints | wc -l; mount -o remount,size=30m . && \"$0\" \"$@\"; echo \"second $?\""
    );
    let mut args = small(&s, &["logger.dir=run", "checkpoint.save_interval=1", "validation.eval_interval=0"]);
    args.push("train.train_iters=4".into());
    let out = inside(&script, &args).unwrap();
    let (said, wrote) = (String::from_utf8_lossy(&out.stderr), String::from_utf8_lossy(&out.stdout));
    let words: Vec<&str> = wrote.split_whitespace().collect();
    assert!(said.contains("No space left on device") && said.contains("what was complete is untouched"), "{said}");
    assert_eq!(words, ["first", "3", "1", "2", "second", "0"], "{wrote}{said}");
    assert!(said.contains("resuming after step 1 ") && said.contains("done after step 4"), "{said}");
}
