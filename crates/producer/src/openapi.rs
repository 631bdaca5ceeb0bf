//! The routes of the API, and of operators' calls, and what is told of them in OpenAPI 3.1, made together: no route can be
//! added without its entry. Each listener tells of its own routes.
//!
//! `operation` is one entry, `schemas` the shapes, `document` puts them together.

mod document;
mod operation;
mod schemas;

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::handler::Handler;
use axum::http::Method;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, on};
use bytes::Bytes;

pub(crate) use self::operation::{Answer, Input, Operation, Parameter};
pub(crate) use self::schemas::Shape;
use crate::app::App;

/// Where the document is.
const PATH: &str = "/openapi.json";

/// One method of a path: who handles it, and its entry.
pub(crate) struct OfMethod {
    method: Method,
    router: MethodRouter<Arc<App>, Infallible>,
    operation: Operation,
}

/// `GET`, and `HEAD` with it.
pub(crate) fn get<H, T>(handler: H, operation: Operation) -> OfMethod
where
    H: Handler<T, Arc<App>>,
    T: 'static,
{
    of((Method::GET, MethodFilter::GET), handler, operation)
}

/// `POST`.
pub(crate) fn post<H, T>(handler: H, operation: Operation) -> OfMethod
where
    H: Handler<T, Arc<App>>,
    T: 'static,
{
    of((Method::POST, MethodFilter::POST), handler, operation)
}

/// `DELETE`.
pub(crate) fn delete<H, T>(handler: H, operation: Operation) -> OfMethod
where
    H: Handler<T, Arc<App>>,
    T: 'static,
{
    of((Method::DELETE, MethodFilter::DELETE), handler, operation)
}

/// `PUT`.
pub(crate) fn put<H, T>(handler: H, operation: Operation) -> OfMethod
where
    H: Handler<T, Arc<App>>,
    T: 'static,
{
    of((Method::PUT, MethodFilter::PUT), handler, operation)
}

fn of<H, T>((method, filter): (Method, MethodFilter), handler: H, operation: Operation) -> OfMethod
where
    H: Handler<T, Arc<App>>,
    T: 'static,
{
    OfMethod { method, router: on(filter, handler), operation }
}

/// Routes and their entries.
#[derive(Default)]
pub(crate) struct Routes {
    router: Router<Arc<App>>,
    entries: Vec<(&'static str, Method, Operation)>,
}

impl Routes {
    /// Adds a path with its methods.
    pub(crate) fn at<const N: usize>(mut self, path: &'static str, methods: [OfMethod; N]) -> Self {
        let mut all = MethodRouter::new();
        for OfMethod { method, router, operation } in methods {
            all = all.merge(router);
            self.entries.push((path, method, operation));
        }
        self.router = self.router.route(path, all);
        self
    }

    /// The routes, the document about them among them.
    pub(crate) fn finish(self) -> Router<Arc<App>> {
        // Never changes while the process runs.
        let text = Bytes::from(document::of(&self.entries).to_string());
        let serve = async move || -> Response {
            ([(CONTENT_TYPE, "application/json")], text.clone()).into_response()
        };
        self.router.route(PATH, axum::routing::get(serve))
    }
}
