//! Replies of one API in the form of another.

mod messages_as_chat;
mod responses_as_chat;
