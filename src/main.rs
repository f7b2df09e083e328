//! The command line: settings in, exit status out.

use std::process::ExitCode;

/// The database engine recurses deeply; the default stack of a worker thread is too small for it.
const STACK: usize = 10 * 1024 * 1024;

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(STACK).build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("mercato: the runtime cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(mercato::cli::run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mercato: {error}");
            ExitCode::FAILURE
        }
    }
}
