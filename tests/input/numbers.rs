//! Bodies whose numbers are the point: a reader that takes them for doubles writes others.

use super::json::{list, object, string};
use super::kinds::{chat, sentence};
use super::random::Random;

/// Integers beside the bounds of doubles and of machine words.
const INTEGERS: [&str; 14] = [
    "9007199254740991",
    "9007199254740992",
    "9007199254740993",
    "-9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "18446744073709551616",
    "340282366920938463463374607431768211456",
    "12345678901234567890123",
    "-0",
    "0",
];

/// Fractions and exponents: the same value in many spellings, and values that no double holds.
const FRACTIONS: [&str; 20] = [
    "1.0",
    "-0.0",
    "1.10",
    "0.1000000000000000055",
    "1e400",
    "-1E+400",
    "1e-400",
    "5e-324",
    "2.2250738585072011e-308",
    "1.7976931348623157e308",
    "1E22",
    "1e+2",
    "1e-0",
    "100000000000000000000000.0",
    "0.30000000000000004",
    "0e0",
    "-0.0e-7",
    "3.14159265358979323846264338327950288419716939937510",
    "1.0000000000000000000001",
    "12E04",
];

pub(super) fn integers(random: &mut Random, nth: usize) -> String {
    let digits = random.between(20, 60);
    let long: String = (0..digits).map(|_| char::from(b'1' + random.below(9) as u8)).collect();
    let more = [
        ("seed", INTEGERS[nth].to_owned()),
        ("max_tokens", "16".to_owned()),
        ("metadata", object([("n", random.pick(&INTEGERS)), ("long", &long)])),
    ];
    let content = sentence(random, 5);
    chat(random, &string(&content), &more)
}

pub(super) fn fractions(random: &mut Random, nth: usize) -> String {
    let all: Vec<&str> = (0..6).map(|_| random.pick(&FRACTIONS)).collect();
    let more = [
        ("temperature", FRACTIONS[nth].to_owned()),
        ("top_p", FRACTIONS[(nth + 12) % FRACTIONS.len()].to_owned()),
        ("numbers", list(all)),
    ];
    let content = sentence(random, 5);
    chat(random, &string(&content), &more)
}

/// Biases by token, stops, penalties: all that samplers are told.
pub(super) fn biased(random: &mut Random, nth: usize) -> String {
    let biases = (0..=nth * 3).map(|_| {
        let token = random.below(100_000);
        let bias = random.pick(&["-100", "100", "0", "-0.5", "1e1", "7.0"]);
        (token.to_string(), bias)
    });
    let biases = object(biases.collect::<Vec<_>>());
    let stops = ["\n", "\n\n", "###", "</s>", "<|im_end|>", "", " "];
    let stops = list(stops.iter().skip(nth % 4).take(4).map(|stop| string(stop)));
    let more = [
        ("logit_bias", biases),
        ("stop", stops),
        ("presence_penalty", random.pick(&["-2", "0.0", "2.00"]).to_owned()),
        ("frequency_penalty", random.pick(&["-0.1", "0", "1e-1"]).to_owned()),
        ("logprobs", "true".to_owned()),
        ("top_logprobs", random.below(20).to_string()),
        ("stream", "false".to_owned()),
    ];
    let content = sentence(random, 6);
    chat(random, &string(&content), &more)
}
