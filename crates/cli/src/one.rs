//! `submit` of one body.

use std::io::{self, Read};
use std::path::Path;

use hyper::StatusCode;
use serde::Deserialize;
use tokio::time::Instant;
use uuid::Uuid;

use crate::api::Api;
use crate::args::SubmitArgs;
use crate::call::{Call, Target};
use crate::caller::{Caller, Tries, Trouble};
use crate::ended::Ended;
use crate::failure::Failure;
use crate::item::{Item, Until, payload};
use crate::notes::Notes;
use crate::output::Output;
use crate::reply::Reply;
use crate::requests::{LONGEST_WAIT, print, rest, show};

/// What is read of a status.
#[derive(Deserialize)]
struct Kept {
    id: String,
    generation: String,
}

/// Submits one body, and waits for its end if that is asked.
pub(crate) async fn submit(args: &SubmitArgs, output: &mut Output) -> Result<(), Failure> {
    let Some(path) = &args.body else {
        return Err(Failure::Usage("holdfastctl: submit needs a body or a file".to_owned()));
    };
    let bytes = read(path)?;
    let until = Until::of(args.deadline, args.timeout.as_deref());
    // Made here and not by the API, so that a repeat after a lost answer is a repeat.
    let id = args.id.clone().unwrap_or_else(|| Uuid::now_v7().to_string());
    let payload = payload(&path.display().to_string(), &bytes)?;
    let item = Item { id: &id, until: &until, custom_id: None, payload }.text();

    let caller = Caller::new(Api::open(&args.api)?, args.patience, Notes::plain());
    let reply = taken(&caller, &Call::submit(&args.api.queue, item), || {
        // Whoever submits the body anew without this id would have it run twice.
        let under = if args.id.is_none() { format!(" with --id {id}") } else { String::new() };
        let told = "it may have been taken: the same command";
        Notes::plain()
            .say(format!("holdfastctl: {told}{under} asks again and submits no second one"));
    })
    .await?;
    if !args.wait || !is_kept(&reply) {
        return show(&reply, args.output, output);
    }
    let kept: Kept = serde_json::from_slice(&reply.body)
        .map_err(|_| Failure::Nonsense("a status without id and generation"))?;
    Notes::plain().say(format!("{}, generation {}", kept.id, kept.generation));
    let target =
        Target { queue: args.api.queue.clone(), id: kept.id, generation: Some(kept.generation) };
    let ended = wait(&caller, &target).await?;
    print(&target.id, ended, args.output, output)
}

/// Submits until there is an answer that counts. `tell` is called once where it may have been taken without one: at
/// once, since whoever is tired of the tries that follow has to know too.
async fn taken(caller: &Caller, call: &Call, tell: impl FnOnce()) -> Result<Reply, Trouble> {
    let (mut tries, mut tell) = (Tries::default(), Some(tell));
    loop {
        let came = caller.attempt(call, &mut tries).await;
        let is_known = matches!(&came, Ok(Some(reply)) if is_kept(reply));
        if caller.is_open()
            && !is_known
            && let Some(tell) = tell.take()
        {
            tell();
        }
        if let Some(reply) = came? {
            return Ok(reply);
        }
    }
}

fn is_kept(reply: &Reply) -> bool {
    matches!(reply.status, StatusCode::OK | StatusCode::ACCEPTED)
}

/// Waits as long as it takes: a deadline ends every request.
async fn wait(caller: &Caller, target: &Target) -> Result<Ended, Failure> {
    loop {
        let asked = Instant::now();
        let reply = caller.call(&target.result(LONGEST_WAIT)).await?;
        if reply.status != StatusCode::ACCEPTED {
            return Ok(Ended::read(reply)?);
        }
        rest(&reply, asked, LONGEST_WAIT).await;
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    if path.as_os_str() != "-" {
        return std::fs::read(path).map_err(|err| Failure::of_read(path.display(), &err));
    }
    let mut bytes = Vec::new();
    match io::stdin().lock().read_to_end(&mut bytes) {
        Ok(_) => Ok(bytes),
        Err(err) => Err(Failure::of_read("standard input", &err)),
    }
}
