//! `lightning-train`: the program around [`lightning_train::cli`].

use lightning_train::cli::{Actions, Exit, Process, run};

fn main() -> std::process::ExitCode {
    let words: Result<Vec<String>, _> = std::env::args_os().skip(1).map(|w| w.into_string()).collect();
    let exit = match words {
        Ok(words) => run(
            &words,
            &Actions {
                train: Some(lightning_train::train::train),
                verify_parity: Some(lightning_train::verify::parity),
                plan: Some(lightning_train::plan::plan),
                bench_kernels: Some(lightning_train::bench::kernels),
                bench_step: Some(lightning_train::bench::step),
                import: Some(lightning_train::convert::import),
                export: Some(lightning_train::convert::export),
                roundtrip: Some(lightning_train::convert::roundtrip),
                verify_checkpoint: Some(lightning_train::verify::checkpoint),
                verify_same: Some(lightning_train::verify::same),
                verify_resume: Some(lightning_train::verify::resume),
                plot: Some(lightning_train::plot::plot),
                compare: Some(lightning_train::plot::compare),
                doctor: Some(lightning_train::doctor::doctor),
                data: Some(lightning_train::data_verbs::data),
            },
            &mut Process {
                environment: &|name| std::env::var(name).ok(),
                out: &mut std::io::stdout(),
                err: &mut std::io::stderr(),
            },
        ),
        Err(word) => {
            eprintln!("error: the argument {word:?} is not UTF-8; rename the file or folder");
            Exit::Usage
        }
    };
    std::process::ExitCode::from(exit as u8)
}
