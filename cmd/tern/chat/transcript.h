/*
 * Transcripts: a conversation as a JSON list of {"role": ..., "content": ...}, which is also what
 * the service takes as `messages`. A system message may come first; then the user and the assistant
 * take turns, and the assistant has the last word.
 */
#ifndef TERN_CMD_CHAT_TRANSCRIPT_H
#define TERN_CMD_CHAT_TRANSCRIPT_H

#include "proto/status.h"
#include <jansson.h>
#include <stddef.h>

/* Messages of a transcript at most. */
enum { TRANSCRIPT_MESSAGES = 65536 };

/* A transcript from text that nobody vouches for. `name` is what messages call it. *messages is a
 * new reference. TERN_USAGE names the message and what is wrong with it. */
enum tern_status transcript_parse(const char *name, const char *text, size_t length,
                                  json_t **messages, struct tern_error *error);

/* The same from a regular file of at most TERN_MESSAGE_MAX bytes. */
enum tern_status transcript_load(const char *path, json_t **messages, struct tern_error *error);

/* Writes a transcript, whole or not at all, readable by its owner only. An existing file is
 * replaced only if it is a transcript itself. TERN_USAGE, TERN_FAILED. */
enum tern_status transcript_save(const char *path, const json_t *messages,
                                 struct tern_error *error);

#endif
