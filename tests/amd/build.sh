#!/bin/sh
# build.sh DIR: make in DIR what run.py boots: an uncompressed Debian cloud kernel, an initrd, a root file system.
# Once; about 70 s and 1.6 GB.  Root, for debootstrap's chroot.  The root has the host's Debian release, so that the
# host's virtual environment (same Python) runs in it as it is.
set -eu
here=$(cd "$(dirname "$0")" && pwd -P)
mkdir -p "$1"
cd "$1"
. /etc/os-release
suite=${VERSION_CODENAME:?}
include=kmod,iproute2,procps,strace,gcc,libc6-dev,python3-venv,libseccomp2,libcap2,runc,bash

kernel=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: \(linux-image-[^ ]*\)$/\1/p' | head -n 1)
[ -n "$kernel" ] || { apt-get update >/dev/null; kernel=$(apt-cache depends linux-image-cloud-amd64 |
    sed -n 's/.*Depends: \(linux-image-[^ ]*\)$/\1/p' | head -n 1); }
version=${kernel#linux-image-}
if ! [ -d cloud/boot ]; then
    apt-get download "$kernel"
    dpkg-deb -x "$kernel"_*.deb cloud
    rm -f "$kernel"_*.deb
fi
/usr/bin/python3 "$here/extract_vmlinux.py" "cloud/boot/vmlinuz-$version" vmlinux

if ! [ -e rootfs.done ]; then
    rm -rf rootfs
    debootstrap --variant=minbase --include=$include "$suite" rootfs >debootstrap.log 2>&1 ||
        { tail -n 20 debootstrap.log >&2; exit 1; }
    rm -rf rootfs/var/cache/apt/archives/*.deb
    : >rootfs.done
fi
rm -rf rootfs/lib/modules
mkdir -p rootfs/lib/modules
cp -a "cloud/lib/modules/$version" rootfs/lib/modules/
depmod -b rootfs "$version"
cp /bin/busybox rootfs/bin/busybox
install -m 755 "$here/vm-init" rootfs/sbin/vm-init
mke2fs -q -F -t ext4 -O ^has_journal -d rootfs -L vmroot root.img.new 1800M

rm -rf initrd.tree
mkdir -p initrd.tree/bin initrd.tree/dev initrd.tree/proc initrd.tree/sys initrd.tree/mod initrd.tree/mnt
cp /bin/busybox initrd.tree/bin/
for name in sh mount insmod cat ls sleep switch_root dmesg grep tail poweroff; do
    ln -s busybox initrd.tree/bin/$name
done
for name in virtio virtio_ring virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci virtio_blk; do
    file=$(find cloud/lib/modules -name "$name.ko*" | head -n 1)
    case $file in
    *.xz) xz -dc "$file" >initrd.tree/mod/$name.ko ;;
    ?*) cp "$file" initrd.tree/mod/ ;;
    esac
done
install -m 755 "$here/initrd-init" initrd.tree/init
(cd initrd.tree && find . | cpio -o -H newc --quiet) >initrd.cpio
rm -rf initrd.tree
mv root.img.new root.img
