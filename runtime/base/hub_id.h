/* Names of repositories on the Hugging Face hub as a command line has them: [ORG/]NAME[@REVISION].
 */
#ifndef FY_BASE_HUB_ID_H
#define FY_BASE_HUB_ID_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the [ORG/]NAME in front; 0 when the text is no such name. The hub's own rule
 * (validate_repo_id of huggingface_hub): parts of 1 to 96 of A-Z a-z 0-9 _ . -, which begin and end
 * with a letter, a digit or _; no "--" and no ".."; not "*.git". A revision is there when text[n]
 * is '@'; it is not judged. */
size_t fy_hub_id_bytes(const char *text);

/* The form that nothing else has: ORG/NAME, with or without a revision, and no file or directory.
 */
bool fy_hub_id_is_meant(const char *text);

#endif
