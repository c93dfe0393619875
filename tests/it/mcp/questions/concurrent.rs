//! Questions of several calls, callers and processes of a server at the same time.

use std::time::{Duration, Instant};

use super::*;

#[tokio::test]
async fn one_tenant_keeps_few_places_and_its_oldest_question_ends_for_a_new_one() {
    let asking = Asking::start("modern").await;
    let ann = asking.endpoint().key(ANN);
    let bob = asking.endpoint().key(BOB);
    let call =
        |n: usize| json!({"name": "up-ask", "arguments": {"questions": [form("Name?")], "n": n}});
    let mut waiting = Vec::new();
    for n in 0..9 {
        let result = ann.modern("tools/call", call(n)).result().await;
        assert_eq!(result["resultType"], "input_required", "{n} {result}");
        waiting.push(result);
    }
    let answers = json!({"0": good_answer(&form(""))});
    let go_on =
        |n: usize| again(&ann, "tools/call", &call(n), &waiting[n], answers.clone()).response();
    assert_eq!(go_on(0).await["error"]["code"], -32602, "the oldest has ended");
    for n in 1..9 {
        assert_eq!(text(&go_on(n).await)["answers"]["0"]["content"]["name"], "Ann");
    }
    let result = bob.modern("tools/call", ask(&[form("Name?")])).result().await;
    assert_eq!(result["resultType"], "input_required", "{result}");
}

#[tokio::test]
async fn a_client_that_leaves_ends_the_call_that_asks() {
    let asking = Asking::start("legacy").await;
    let session = asking.endpoint().session().await;
    let request = session.request("tools/call", ask(&[form("Name?")])).member("/id", 77);
    let mut stream = request.stream().await;
    let asked = stream.next().await.expect("a question");
    assert_eq!(asked["method"], "elicitation/create");
    let cancel = session.notify("notifications/cancelled", json!({"requestId": 77}));
    assert_eq!(cancel.reply().await.status, 202);
    wait::until("the call to be given up", async || {
        let server = asking.gateway.client("up").await?;
        (server["in_flight"] == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_call_that_has_asked_is_not_repeated_by_another_process() {
    // The first process asks and dies when it is answered; the next one must not be called.
    let asking = Asking::start("legacy").await;
    let endpoint = asking.endpoint();
    let call = json!({"name": "up-ask", "arguments": {"questions": [form("Name?")], "die": true}});
    let waits = endpoint.modern("tools/call", call.clone()).result().await;
    let key = waits["inputRequests"].as_object().expect("questions").keys().next().expect("one");
    let answers = json!({key: good_answer(&form(""))});
    let response = again(&endpoint, "tools/call", &call, &waits, answers).response().await;
    assert_eq!(response["result"]["isError"], true, "{response}");
    assert_eq!(asking.ran(), "");
}

#[tokio::test]
async fn a_question_that_may_belong_to_either_of_two_callers_is_asked_of_neither() {
    let asking = Asking::start("legacy").await;
    let [ann, bob] = [ANN, BOB].map(|key| asking.endpoint().key(key));
    let waits = ann.modern("tools/call", ask(&[form("Name?")])).result().await;
    assert_eq!(waits["resultType"], "input_required");
    let result = bob.modern("tools/call", ask(&[form("Secret?")])).response().await;
    assert_eq!(text(&result)["answers"]["0"]["error"]["code"], -32601, "{result}");
    let key = waits["inputRequests"].as_object().expect("questions").keys().next().expect("one");
    let answers = json!({key: good_answer(&form(""))});
    let call = ask(&[form("Name?")]);
    let done = again(&ann, "tools/call", &call, &waits, answers).response().await;
    assert_eq!(text(&done)["answers"]["0"]["content"]["name"], "Ann");
}

#[tokio::test]
async fn calls_of_one_session_may_ask_at_the_same_time_and_another_one_after_a_cancellation() {
    let asking = Asking::start("legacy").await;
    let endpoint = asking.endpoint().key(ANN);
    let session = endpoint.session().await;
    let call = |id: u32, message: &str| {
        session.request("tools/call", ask(&[form(message)])).member("/id", id)
    };
    let mut first = call(101, "First?").stream().await;
    let waits = first.next().await.expect("a question");
    let mut second = call(102, "Second?").stream().await;
    for (stream, question) in [(&mut second, None), (&mut first, Some(waits))] {
        let question = match question {
            Some(question) => question,
            None => stream.next().await.expect("a question"),
        };
        assert_eq!(question["method"], "elicitation/create", "{question}");
        respond(&session, &question, good_answer(&question)).await;
        let done = stream.next().await.expect("a response");
        assert_eq!(text(&done)["answers"]["0"]["content"]["name"], "Ann", "{done}");
    }

    // The server answers no cancelled call, but it reads the cancellation.
    let mut given_up = call(103, "Third?").stream().await;
    given_up.next().await.expect("a question");
    let cancel = session.notify("notifications/cancelled", json!({"requestId": 103}));
    assert_eq!(cancel.reply().await.status, 202);
    let begun = Instant::now();
    let other = McpClient::Legacy(endpoint.session().await);
    wait::until("the next client to be asked", async || {
        let (_, asked) = conversed(&other, "tools/call", ask(&[form("Name?")]), good_answer).await;
        (!asked.is_empty()).then_some(())
    })
    .await;
    assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
    // For another tenant it may be about the cancelled call.
    let bob = McpClient::Legacy(asking.endpoint().key(BOB).session().await);
    let (refused, asked) = conversed(&bob, "tools/call", ask(&[form("Name?")]), good_answer).await;
    let error = &text(&refused)["answers"]["0"]["error"]["message"];
    assert!(asked.is_empty() && error.to_string().contains("per_call"), "{refused}");
}

#[tokio::test]
async fn a_call_with_a_connection_of_its_own_may_ask() {
    for era in ERAS {
        let asking = Asking::with(era, |client| {
            client.set("/allow", ["elicitation"].as_slice()).set("/lifecycle", "per_call")
        })
        .await;
        for client in asking.endpoint().both().await {
            let (response, asked) =
                conversed(&client, "tools/call", ask(&[form("Name?")]), good_answer).await;
            assert_eq!(asked.len(), 1, "{era} {response}");
            assert_eq!(text(&response)["answers"]["0"]["content"]["name"], "Ann");
        }
    }
}

#[tokio::test]
async fn answers_go_to_the_process_that_has_asked_also_if_it_is_replaced_meanwhile() {
    for era in ERAS {
        for (key, value) in [("instances", json!(2)), ("max_age", json!("1s"))] {
            let asking = Asking::with(era, |client| {
                let client = client.set("/allow", ["elicitation"].as_slice());
                client.set(&format!("/stdio_config/{key}"), value)
            })
            .await;
            let endpoint = asking.endpoint();
            let mut call = ask(&[form("Name?")]);
            call["arguments"]["own"] = true.into();
            let before = asking.replacements().await;
            // Equal instances get calls in turn.
            let calls = if key == "instances" { 2 } else { 1 };
            let mut asked = Vec::new();
            for _ in 0..calls {
                asked.push(endpoint.modern("tools/call", call.clone()).result().await);
            }
            if key == "max_age" {
                wait::until("the process to be replaced", async || {
                    (asking.replacements().await > before).then_some(())
                })
                .await;
            }
            for result in asked.iter().rev() {
                let mut answers = json!({});
                for (key, question) in result["inputRequests"].as_object().expect("questions") {
                    answers[key] = good_answer(question);
                }
                let answered = again(&endpoint, "tools/call", &call, result, answers);
                let answered = answered.response().await;
                assert_eq!(
                    text(&answered)["answers"]["0"]["content"]["name"],
                    "Ann",
                    "{era} {key}"
                );
            }
        }
    }
}
