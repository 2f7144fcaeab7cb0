/* What a converted file says that other programs overlook: they load it and compute something else.
 */
#ifndef FY_CONVERT_FOREIGN_READER_H
#define FY_CONVERT_FOREIGN_READER_H

#include "convert/source/hf_config.h"

/* One warning for each, to the log. */
void fy_warn_foreign_readers(const fy_hf_config *c);

#endif
