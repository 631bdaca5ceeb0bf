//! As much of Lua's grammar as is needed to find conditions, checks, writes and returns, each with its place.

use std::ops::Range;

use super::lex::{Kind, Token, tokens};

/// A part of a text, in bytes.
pub(super) type Span = Range<usize>;

pub(super) type Block = Vec<Statement>;

/// One statement.
#[derive(Debug)]
pub(super) struct Statement {
    pub(super) at: Span,
    pub(super) what: What,
    /// The expressions in it, without those in its blocks.
    pub(super) parts: Vec<Expression>,
}

#[derive(Debug)]
pub(super) enum What {
    /// Its arms, each with its condition, and what is done otherwise.
    If(Vec<(Expression, Block)>, Option<Block>),
    While(Expression, Block),
    /// `for`, `do`: a block that runs.
    Blocks(Block),
    /// Where its name stands, and its body.
    Function(Span, Block),
    Local,
    Assign,
    Call,
    Return,
    Break,
}

/// An expression; of its structure only `and`, `or` and what they stand in is kept.
#[derive(Debug)]
pub(super) struct Expression {
    pub(super) at: Span,
    /// `and` or `or` between the parts; none: the parts stand somewhere in it.
    pub(super) between: Option<&'static str>,
    pub(super) parts: Vec<Expression>,
    /// The blocks of functions that stand in it.
    pub(super) blocks: Vec<Block>,
}

/// Reads a whole text.
///
/// # Panics
///
/// If it is no Lua, or more of Lua than is known here.
pub(super) fn parse(text: &str) -> Block {
    let mut parser = Parser { text, tokens: tokens(text), next: 0 };
    let block = parser.block();
    assert!(parser.tokens.len() == parser.next, "no statement: {}", parser.rest());
    block
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    next: usize,
}

impl<'a> Parser<'a> {
    /// The word that comes, or nothing at the end.
    fn word(&self) -> &'a str {
        self.tokens.get(self.next).map_or("", |token| &self.text[token.at.clone()])
    }

    fn kind(&self) -> Option<Kind> {
        self.tokens.get(self.next).map(|token| token.kind)
    }

    fn start(&self) -> usize {
        self.tokens.get(self.next).map_or(self.text.len(), |token| token.at.start)
    }

    /// The end of what was read.
    fn end(&self) -> usize {
        self.tokens[self.next - 1].at.end
    }

    fn rest(&self) -> &'a str {
        self.text[self.start()..].lines().next().unwrap_or("")
    }

    fn comes(&mut self, word: &str) -> bool {
        let comes = self.word() == word && self.kind() != Some(Kind::Literal);
        self.next += usize::from(comes);
        comes
    }

    fn must(&mut self, word: &str) {
        assert!(self.comes(word), "no {word}: {}", self.rest());
    }

    fn block(&mut self) -> Block {
        let mut block = Block::new();
        while !matches!(self.word(), "" | "end" | "else" | "elseif" | "until") {
            let start = self.start();
            let (what, parts) = self.statement();
            block.push(Statement { at: start..self.end(), what, parts });
            self.comes(";");
        }
        block
    }

    fn ended(&mut self) -> Block {
        let block = self.block();
        self.must("end");
        block
    }

    fn statement(&mut self) -> (What, Vec<Expression>) {
        let none = Vec::new();
        match self.word() {
            "if" => (self.branches(), none),
            "while" => {
                self.must("while");
                let condition = self.expression();
                self.must("do");
                (What::While(condition, self.ended()), none)
            }
            "for" => {
                self.must("for");
                let mut parts = self.list();
                if !self.comes("in") {
                    self.must("=");
                }
                parts.extend(self.list());
                self.must("do");
                (What::Blocks(self.ended()), parts)
            }
            "local" => {
                self.must("local");
                if self.comes("function") {
                    let name = self.start();
                    self.next += 1;
                    let name = name..self.end();
                    return (What::Function(name, self.function()), none);
                }
                let mut parts = self.list();
                if self.comes("=") {
                    parts.extend(self.list());
                }
                (What::Local, parts)
            }
            "return" => {
                self.must("return");
                let parts = if matches!(self.word(), "end" | "") { none } else { self.list() };
                (What::Return, parts)
            }
            "break" => {
                self.must("break");
                (What::Break, none)
            }
            _ => {
                let mut parts = self.list();
                if !self.comes("=") {
                    return (What::Call, parts);
                }
                parts.extend(self.list());
                (What::Assign, parts)
            }
        }
    }

    fn branches(&mut self) -> What {
        let (mut arms, mut otherwise) = (Vec::new(), None);
        self.must("if");
        loop {
            let condition = self.expression();
            self.must("then");
            arms.push((condition, self.block()));
            if !self.comes("elseif") {
                break;
            }
        }
        if self.comes("else") {
            otherwise = Some(self.block());
        }
        self.must("end");
        What::If(arms, otherwise)
    }

    /// The parameters and the body of a function.
    fn function(&mut self) -> Block {
        while !self.comes(")") {
            self.next += 1;
        }
        self.ended()
    }

    fn list(&mut self) -> Vec<Expression> {
        let mut list = vec![self.expression()];
        while self.comes(",") {
            list.push(self.expression());
        }
        list
    }

    fn expression(&mut self) -> Expression {
        self.joined("or", |parser| parser.joined("and", Self::operand))
    }

    fn joined(
        &mut self,
        between: &'static str,
        part: impl Fn(&mut Self) -> Expression,
    ) -> Expression {
        let start = self.start();
        let first = part(self);
        if self.word() != between {
            return first;
        }
        let mut parts = vec![first];
        while self.comes(between) {
            parts.push(part(self));
        }
        Expression { at: start..self.end(), between: Some(between), parts, blocks: Vec::new() }
    }

    /// What binds closer than `and`.
    fn operand(&mut self) -> Expression {
        let start = self.start();
        let (mut parts, mut blocks) = (Vec::new(), Vec::new());
        loop {
            while matches!(self.word(), "not" | "-" | "#") {
                self.next += 1;
            }
            self.primary(&mut parts, &mut blocks);
            let operators = ["+", "-", "*", "/", "%", "^", "..", "==", "~=", "<", ">", "<=", ">="];
            let known = self.kind() == Some(Kind::Symbol) && operators.contains(&self.word());
            if !known {
                break;
            }
            self.next += 1;
        }
        Expression { at: start..self.end(), between: None, parts, blocks }
    }

    fn primary(&mut self, parts: &mut Vec<Expression>, blocks: &mut Vec<Block>) {
        if self.comes("function") {
            blocks.push(self.function());
        } else if self.comes("(") {
            parts.push(self.expression());
            self.must(")");
        } else if self.comes("{") {
            self.fields(parts);
        } else {
            assert!(self.kind() != Some(Kind::Symbol) || self.word() == "...", "{}", self.rest());
            self.next += 1;
        }
        loop {
            if self.comes(".") || self.comes(":") {
                self.next += 1;
            } else if self.comes("[") {
                parts.push(self.expression());
                self.must("]");
            } else if self.comes("(") {
                if !self.comes(")") {
                    parts.extend(self.list());
                    self.must(")");
                }
            } else {
                return;
            }
        }
    }

    /// What stands in a table.
    fn fields(&mut self, parts: &mut Vec<Expression>) {
        while !self.comes("}") {
            if self.comes("[") {
                parts.push(self.expression());
                self.must("]");
            } else {
                parts.push(self.expression());
            }
            if self.comes("=") {
                parts.push(self.expression());
            }
            self.comes(",");
        }
    }
}
