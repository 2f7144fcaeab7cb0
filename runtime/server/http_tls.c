/* TLS 1.2 and newer for connections, by OpenSSL with its default ciphers. The device build has none. */
#include "server/http_conn.h"

#ifdef FERRY_DEVICE

int fy_tls_open(const char *cert_file, const char *key_file, void **tls, fy_err *e)
{
    (void)cert_file;
    (void)key_file;
    *tls = NULL;
    return fy_fail(e, FY_EUNSUPPORTED, "this build of ferry has no TLS: use adb forward, or a proxy");
}

void fy_tls_free(void *tls)
{
    (void)tls;
}

struct bufferevent *fy_tls_accept(void *tls, struct event_base *base, evutil_socket_t fd)
{
    (void)tls;
    (void)base;
    (void)fd;
    return NULL;
}

#else

#include <event2/bufferevent_ssl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

static int tls_fail(const char *what, fy_err *e)
{
    char why[160];
    ERR_error_string_n(ERR_get_error(), why, sizeof why);
    ERR_clear_error();
    return fy_fail(e, FY_EARG, "%s: %s", what, why);
}

int fy_tls_open(const char *cert_file, const char *key_file, void **tls, fy_err *e)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    *tls = NULL;
    if (ctx == NULL)
        return fy_nomem(e);
    int rc = 0;
    if (SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1)
        rc = tls_fail("TLS 1.2", e);
    else if (SSL_CTX_use_certificate_chain_file(ctx, cert_file) != 1)
        rc = tls_fail(cert_file, e);
    else if (SSL_CTX_use_PrivateKey_file(ctx, key_file, SSL_FILETYPE_PEM) != 1 ||
             SSL_CTX_check_private_key(ctx) != 1)
        rc = tls_fail(key_file, e);
    if (rc != 0)
        SSL_CTX_free(ctx);
    else
        *tls = ctx;
    return rc;
}

void fy_tls_free(void *tls)
{
    SSL_CTX_free(tls);
}

struct bufferevent *fy_tls_accept(void *tls, struct event_base *base, evutil_socket_t fd)
{
    SSL *ssl = SSL_new(tls);
    struct bufferevent *b =
        ssl == NULL ? NULL
                    : bufferevent_openssl_socket_new(base, fd, ssl, BUFFEREVENT_SSL_ACCEPTING,
                                                     BEV_OPT_CLOSE_ON_FREE);
    if (b != NULL)
        bufferevent_openssl_set_allow_dirty_shutdown(b, 1);
    else
        SSL_free(ssl);
    return b;
}

#endif
