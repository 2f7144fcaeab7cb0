#include "cli/measure/eval_imatrix.h"

#include "base/file.h"
#include "base/log.h"
#include "base/str.h"

fy_collector *fy_eval_imatrix_begin(fy_session *s, const char *model, const char *out, fy_err *e)
{
    if (fy_file_is_same(model, out)) {
        fy_fail(e, FY_EARG, "%s: is the model, expected another name for the importance matrix",
                out);
        return NULL;
    }
    fy_out *o = fy_out_open(out, 0, e); /* the work may take long: can this be written? */
    if (o == NULL)
        return NULL;
    fy_out_abort(o);
    return fy_collector_new(s, e);
}

int fy_eval_imatrix_end(const fy_collector *c, const char *out, const char *text, uint32_t n_ctx,
                        fy_err *e)
{
    fy_collected found;
    char shown[FY_QUOTE_BYTES];
    if (fy_collector_write(c, out, fy_span_of(text), n_ctx, &found, e) != 0)
        return -1;
    fy_log(FY_LOG_INFO, "%s: importance of the columns of %zu tensors over %llu tokens", out,
           found.n_tensors, (unsigned long long)found.n_tokens);
    if (found.n_never > 0)
        fy_log(FY_LOG_WARN,
               "%llu matrices of experts were chosen by no token, the first in %s: quantize takes "
               "all their columns for equally important; a longer text may reach them",
               (unsigned long long)found.n_never, fy_quote(shown, sizeof shown, found.never));
    return 0;
}
