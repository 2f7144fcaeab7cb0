/* The native half of org.ferry.Ferry: libferry behind four functions. Texts cross as UTF-8 in byte
 * arrays, because Java's own strings are another encoding in JNI. docs/android/README.md builds it.
 */
#include <jni.h>
#include <stdlib.h>
#include <string.h>

#include <ferry.h>

typedef struct {
    ferry_model *model;
    const ferry_vocab *vocab; /* view of the model */
    ferry_session *session;
    ferry_sampler *sampler;
} tale;

enum { MOST_IDS = 4096, TOKEN_BYTES = 512 };

static void fail(JNIEnv *env, const char *message)
{
    jclass type = (*env)->FindClass(env, "java/lang/IllegalStateException");
    if (type != NULL)
        (*env)->ThrowNew(env, type, message);
}

static void release(tale *t)
{
    ferry_sampler_free(t->sampler);
    ferry_session_free(t->session);
    ferry_model_free(t->model);
    free(t);
}

/* With a NUL after it; the caller frees. NULL: an exception is pending. */
static char *text_of(JNIEnv *env, jbyteArray bytes, jsize *n)
{
    *n = (*env)->GetArrayLength(env, bytes);
    char *text = malloc((size_t)*n + 1);
    if (text == NULL) {
        fail(env, "out of memory");
        return NULL;
    }
    (*env)->GetByteArrayRegion(env, bytes, 0, *n, (jbyte *)text);
    text[*n] = '\0';
    return text;
}

JNIEXPORT jlong JNICALL Java_org_ferry_Ferry_open(JNIEnv *env, jclass self, jbyteArray path)
{
    (void)self;
    ferry_error e = {0};
    jsize n;
    char *name = text_of(env, path, &n);
    tale *t = calloc(1, sizeof *t);
    if (name == NULL || t == NULL || ferry_model_open(name, NULL, &t->model, &e) != FERRY_OK ||
        ferry_model_vocab(t->model, &t->vocab, &e) != FERRY_OK ||
        ferry_session_new(t->model, NULL, &t->session, &e) != FERRY_OK ||
        ferry_sampler_new(t->model, NULL, &t->sampler, &e) != FERRY_OK) {
        if (name != NULL)
            fail(env, t != NULL ? e.message : "out of memory");
        if (t != NULL)
            release(t);
        t = NULL;
    }
    free(name);
    return (jlong)(intptr_t)t;
}

/* Appends the text of up to n tokens to out[0..*used). */
static ferry_status tell(tale *t, const float *logits, int n, char *out, size_t *used,
                         ferry_error *e)
{
    ferry_status rc = FERRY_OK;
    for (int i = 0; i < n && rc == FERRY_OK; i++) {
        int32_t id;
        size_t bytes = 0;
        rc = ferry_sampler_sample(t->sampler, logits, &id, e);
        if (rc == FERRY_OK && ferry_vocab_is_end(t->vocab, id))
            return FERRY_OK;
        if (rc == FERRY_OK)
            rc = ferry_sampler_accept(t->sampler, id, e);
        if (rc == FERRY_OK)
            rc = ferry_token_text(t->vocab, id, 0, out + *used, TOKEN_BYTES, &bytes, e);
        *used += rc == FERRY_OK ? bytes : 0;
        if (rc == FERRY_OK && i + 1 < n)
            rc = ferry_session_eval(t->session, &id, 1, &logits, e);
    }
    return rc;
}

JNIEXPORT jbyteArray JNICALL Java_org_ferry_Ferry_tell(JNIEnv *env, jclass self, jlong handle,
                                                       jbyteArray prompt, jint n)
{
    (void)self;
    tale *t = (tale *)(intptr_t)handle;
    ferry_error e = {0};
    size_t n_ids, used = 0;
    jsize n_bytes;
    const float *logits;
    jbyteArray answer = NULL;
    char *text = text_of(env, prompt, &n_bytes);
    int32_t *ids = malloc(MOST_IDS * sizeof *ids);
    char *out = n >= 0 && n <= MOST_IDS ? malloc((size_t)(n + 1) * TOKEN_BYTES) : NULL;
    ferry_session_rewind(t->session, 0); /* a text of its own each time */
    ferry_sampler_reset(t->sampler, 0);
    if (text == NULL) {
        ; /* thrown already */
    } else if (ids == NULL || out == NULL) {
        fail(env, "too many tokens, or out of memory");
    } else if (ferry_tokenize(t->vocab, text, (size_t)n_bytes, FERRY_ADD_SPECIAL, ids, MOST_IDS,
                              &n_ids, &e) != FERRY_OK ||
               ferry_session_eval(t->session, ids, n_ids, &logits, &e) != FERRY_OK ||
               tell(t, logits, n, out, &used, &e) != FERRY_OK) {
        fail(env, e.message);
    } else if ((answer = (*env)->NewByteArray(env, (jsize)used)) != NULL) {
        (*env)->SetByteArrayRegion(env, answer, 0, (jsize)used, (const jbyte *)out);
    }
    free(out);
    free(ids);
    free(text);
    return answer;
}

/* From any thread. */
JNIEXPORT void JNICALL Java_org_ferry_Ferry_cancel(JNIEnv *env, jclass self, jlong handle)
{
    (void)env, (void)self;
    ferry_session_cancel(((tale *)(intptr_t)handle)->session);
}

JNIEXPORT void JNICALL Java_org_ferry_Ferry_close(JNIEnv *env, jclass self, jlong handle)
{
    (void)env, (void)self;
    release((tale *)(intptr_t)handle);
}
