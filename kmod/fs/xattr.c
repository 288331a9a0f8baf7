// SPDX-License-Identifier: GPL-2.0
/*
 * Extended attributes and ACLs: one stream of entries per inode, in the slot or in
 * blocks that are put together when it is asked for.
 */
#include <linux/mm.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <linux/slab.h>

#include "uhsfs.h"

#include "core/xattr.h"

/* ---- the stream ---------------------------------------------------------------------- */

struct stream {
	const u8 *bytes;
	u32 len;
	u8 *buffer;		/* to be freed, or NULL: bytes stand in the slot */
	struct inode *inode;	/* whose image is locked */
};

/* One block, to be checked by the caller, with a reference. */
static struct folio *xattr_folio(struct inode *inode, u64 block)
{
	struct folio *folio = uhsfs_read_block(inode->i_sb, block);

	if (IS_ERR(folio) && PTR_ERR(folio) == -EIO)
		uhsfs_err(inode->i_sb, "inode %lu: attributes: cannot read block %llu (error %ld)",
			  inode->i_ino, block, PTR_ERR(folio));
	return folio;
}

static int collect_block(struct inode *inode, const struct uhsfs_xattr_owner *owner, u64 block,
			 u32 i, struct stream *stream)
{
	struct folio *folio = xattr_folio(inode, block);
	struct uhsfs_fault fault;
	int err;

	if (IS_ERR(folio))
		return PTR_ERR(folio);
	err = uhsfs_xattr_data_check(folio_address(folio), uhsfs_geo(inode->i_sb), owner, block,
				     stream->len, i, &fault);
	if (!err)
		uhsfs_xattr_collect(stream->buffer, stream->len, i, folio_address(folio));
	folio_put(folio);
	return err ? uhsfs_fault(inode->i_sb, inode->i_ino, &fault) : 0;
}

static int collect_all(struct inode *inode, const struct uhsfs_xattr_place *place,
		       struct stream *stream)
{
	const struct uhsfs_xattr_owner owner = {
		.ino = inode->i_ino,
		.gen = inode->i_generation,
	};
	const struct uhsfs_geometry *geo = uhsfs_geo(inode->i_sb);
	struct uhsfs_fault fault;
	struct folio *index;
	int err;

	if (place->depth == 1)
		return collect_block(inode, &owner, place->block, 0, stream);
	index = xattr_folio(inode, place->block);
	if (IS_ERR(index))
		return PTR_ERR(index);
	err = uhsfs_xattr_index_check(folio_address(index), geo, &owner, place->block, place->bytes,
				      &fault);
	if (err)
		err = uhsfs_fault(inode->i_sb, inode->i_ino, &fault);
	for (u32 i = 0; !err && i < uhsfs_xattr_data_blocks(place->bytes); i++)
		err = collect_block(inode, &owner,
				    uhsfs_xattr_index_get(folio_address(index), i), i, stream);
	folio_put(index);
	return err;
}

static void close_stream(struct stream *stream)
{
	kvfree(stream->buffer);
	up_read(&uhsfs_i(stream->inode)->lock);
}

static int open_stream(struct inode *inode, struct stream *stream)
{
	const struct uhsfs_slot_view *view = &uhsfs_i(inode)->view;
	struct uhsfs_xattr_place place;
	struct uhsfs_fault fault;
	int err;

	down_read(&uhsfs_i(inode)->lock);
	*stream = (struct stream) {
		.inode = inode,
		.bytes = view->value[UHSFS_TLV_XATTRS],
		.len = view->len[UHSFS_TLV_XATTRS],
	};
	if (!view->value[UHSFS_TLV_XATTR_ROOT])
		return 0;
	err = uhsfs_xattr_root_decode(view->value[UHSFS_TLV_XATTR_ROOT],
				      view->len[UHSFS_TLV_XATTR_ROOT], uhsfs_geo(inode->i_sb),
				      inode->i_ino, &place, &fault);
	if (err) {
		err = uhsfs_fault(inode->i_sb, inode->i_ino, &fault);
		close_stream(stream);
		return err;
	}
	stream->len = place.bytes;
	stream->buffer = kvmalloc(place.bytes, GFP_NOFS);
	if (!stream->buffer) {
		close_stream(stream);
		return -ENOMEM;
	}
	stream->bytes = stream->buffer;
	err = collect_all(inode, &place, stream);
	if (!err && uhsfs_xattr_check(stream->bytes, stream->len, "attributes of inode",
				      inode->i_ino, &fault))
		err = uhsfs_fault(inode->i_sb, inode->i_ino, &fault);
	if (err)
		close_stream(stream);
	return err;
}

/* The value's length; copied if there is a buffer. */
static int get(struct inode *inode, u8 space, const char *name, void *buffer, size_t size)
{
	struct uhsfs_xattr_item item;
	struct stream stream;
	size_t len = strlen(name);
	int ret;

	if (len > XATTR_NAME_MAX)
		return -ERANGE;
	ret = open_stream(inode, &stream);
	if (ret)
		return ret;
	ret = uhsfs_xattr_find(stream.bytes, stream.len, space, (const u8 *)name, len, &item);
	if (!ret) {
		ret = item.value_len;
		if (buffer && item.value_len > size)
			ret = -ERANGE;
		else if (buffer)
			memcpy(buffer, item.value, item.value_len);
	}
	close_stream(&stream);
	return ret;
}

/* ---- names as the user sees them --------------------------------------------------- */

static const char *const prefixes[UHSFS_XATTR_SPACES] = {
	[UHSFS_XATTR_USER] = XATTR_USER_PREFIX,
	[UHSFS_XATTR_TRUSTED] = XATTR_TRUSTED_PREFIX,
	[UHSFS_XATTR_SECURITY] = XATTR_SECURITY_PREFIX,
	[UHSFS_XATTR_ACL_ACCESS] = XATTR_NAME_POSIX_ACL_ACCESS,
	[UHSFS_XATTR_ACL_DEFAULT] = XATTR_NAME_POSIX_ACL_DEFAULT,
};

static bool visible(u8 space)
{
	return space != UHSFS_XATTR_TRUSTED || capable(CAP_SYS_ADMIN);
}

/* Append one name with its NUL; the bytes it takes, or -ERANGE. */
static ssize_t list_name(const struct uhsfs_xattr_item *item, char *buffer, size_t size)
{
	size_t prefix = strlen(prefixes[item->space]);
	size_t len = prefix + item->name_len + 1;

	if (!buffer)
		return len;
	if (len > size)
		return -ERANGE;
	memcpy(buffer, prefixes[item->space], prefix);
	memcpy(buffer + prefix, item->name, item->name_len);
	buffer[len - 1] = '\0';
	return len;
}

ssize_t uhsfs_listxattr(struct dentry *dentry, char *buffer, size_t size)
{
	struct uhsfs_xattr_item item;
	struct stream stream;
	ssize_t total = 0;
	u32 at = 0;
	int err;

	err = open_stream(d_inode(dentry), &stream);
	if (err)
		return err;
	while (uhsfs_xattr_next(stream.bytes, stream.len, &at, &item)) {
		ssize_t len;

		if (!visible(item.space))
			continue;
		len = list_name(&item, buffer ? buffer + total : NULL, size - total);
		if (len < 0) {
			total = len;
			break;
		}
		total += len;
	}
	close_stream(&stream);
	return total;
}

/* handler->flags: the space. */
static int handler_get(const struct xattr_handler *handler, struct dentry *dentry,
		       struct inode *inode, const char *name, void *buffer, size_t size)
{
	return get(inode, handler->flags, name, buffer, size);
}

static const struct xattr_handler user_handler = {
	.prefix = XATTR_USER_PREFIX,
	.flags = UHSFS_XATTR_USER,
	.get = handler_get,
};

static const struct xattr_handler trusted_handler = {
	.prefix = XATTR_TRUSTED_PREFIX,
	.flags = UHSFS_XATTR_TRUSTED,
	.get = handler_get,
};

static const struct xattr_handler security_handler = {
	.prefix = XATTR_SECURITY_PREFIX,
	.flags = UHSFS_XATTR_SECURITY,
	.get = handler_get,
};

const struct xattr_handler *UHSFS_XATTR_TABLE uhsfs_xattr_handlers[] = {
	&user_handler,
	&trusted_handler,
	&security_handler,
	UHSFS_ACL_HANDLERS
	NULL,
};

/* ---- ACLs -------------------------------------------------------------------------- */

struct posix_acl *uhsfs_get_acl(struct inode *inode, int type, bool rcu)
{
	u8 space = type == ACL_TYPE_ACCESS ? UHSFS_XATTR_ACL_ACCESS : UHSFS_XATTR_ACL_DEFAULT;
	struct posix_acl *acl;
	struct uhsfs_xattr_item item;
	struct stream stream;
	int err;

	if (rcu)
		return ERR_PTR(-ECHILD);
	err = open_stream(inode, &stream);
	if (err)
		return ERR_PTR(err);
	err = uhsfs_xattr_find(stream.bytes, stream.len, space, NULL, 0, &item);
	acl = err ? NULL : posix_acl_from_xattr(&init_user_ns, item.value, item.value_len);
	if (IS_ERR(acl) && PTR_ERR(acl) != -ENOMEM)
		acl = ERR_PTR(uhsfs_corrupt(inode->i_sb, inode->i_ino, "ACL", item.value_len,
					    sizeof(struct posix_acl_xattr_header),
					    "must be a valid ACL"));
	close_stream(&stream);
	return acl;
}
