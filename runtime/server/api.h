/* The handlers of all routes, by the file that has them. */
#ifndef FY_SERVER_API_H
#define FY_SERVER_API_H

#include "server/exchange.h"

void fy_handle_page(fy_exchange *x); /* api_info.c */
void fy_handle_health(fy_exchange *x);
void fy_handle_models(fy_exchange *x);
void fy_handle_model(fy_exchange *x);
void fy_handle_props(fy_exchange *x);
void fy_handle_props_post(fy_exchange *x);
void fy_handle_slots(fy_exchange *x);
void fy_handle_metrics(fy_exchange *x);
void fy_handle_unsupported(fy_exchange *x);

void fy_handle_slot(fy_exchange *x); /* api_slots.c */

void fy_handle_tokenize(fy_exchange *x); /* api_tokens.c */
void fy_handle_detokenize(fy_exchange *x);
void fy_handle_apply_template(fy_exchange *x);
void fy_handle_input_tokens(fy_exchange *x);

void fy_handle_infill(fy_exchange *x);
void fy_handle_completion(fy_exchange *x);  /* api_completion.c: llama-server's /completion */
void fy_handle_completions(fy_exchange *x); /* api_completions.c: OpenAI's */
void fy_handle_chat(fy_exchange *x);        /* api_chat.c */

void fy_handle_responses(fy_exchange *x); /* api_responses.c: OpenAI's newer form */
void fy_handle_response_tokens(fy_exchange *x);
void fy_handle_stored_response(fy_exchange *x);

void fy_handle_ollama_chat(fy_exchange *x); /* api_ollama.c */
void fy_handle_ollama_generate(fy_exchange *x);
void fy_handle_ollama_embed(fy_exchange *x);
void fy_handle_ollama_embeddings(fy_exchange *x);
void fy_handle_ollama_tags(fy_exchange *x);
void fy_handle_ollama_ps(fy_exchange *x);
void fy_handle_ollama_version(fy_exchange *x);
void fy_handle_ollama_show(fy_exchange *x);
void fy_put_ollama_error(fy_str *out, const fy_api_refusal *r, const char *message);

void fy_handle_embeddings(fy_exchange *x); /* api_embeddings.c: OpenAI's, llama-server's */
void fy_handle_embedding(fy_exchange *x);

void fy_handle_messages(fy_exchange *x); /* api_messages.c: Anthropic's */
void fy_handle_count_tokens(fy_exchange *x);
void fy_put_messages_error(fy_str *out, const fy_api_refusal *r, const char *message);

#endif
