//! Pieces of Chinese, Japanese and Korean that may stand in an approving answer. Words have no
//! blanks between them here, so a clause has to be made of known pieces, the longest first, and one
//! of them has to speak for the change.

/// Pieces of one language.
struct Pieces {
    good: &'static str,
    plain: &'static str,
    /// Whole clauses, the only ones with a negation.
    idioms: &'static str,
    /// Pieces that may not end a clause, because a reservation follows.
    open_ends: &'static str,
}

const LANGUAGES: [&Pieces; 3] = [&CHINESE, &JAPANESE, &KOREAN];

const CHINESE: Pieces = Pieces {
    good: "清晰 完整 充分 正确 良好 简洁 很好 写得好 写得很好 做得好 谢谢 感谢 可以合并 批准 同意 干净 合理 易读 一致 符合 满足 通过 通过了 覆盖了 覆盖 已修复 全部修复 已解决 规范 出色 优秀 没问题 不错",
    plain: "代码 程式码 测试 用例 全部 所有 都 均 也 和 与 并 并且 而且 的 了 很 非常 十分 文档 文件 实现 改动 变更 提交 结构 逻辑 命名 要求 需求 验收标准 标准 写得 可读性 质量 高 错误处理 边界情况 整个 模块 函数 接口 新 新增 这次 本次 工作 我 已 已经 运行了 差异 上一轮 上一轮的问题 第一轮的问题 规则 项目 任务 这个 设计 单元测试 测试用例",
    idioms: "没有发现任何问题 没有发现问题 未发现任何问题 未发现问题 没有任何问题 没有问题 无问题 没有意见 无意见 无需修改 不需要修改 我阅读了所有文件 阅读了所有文件 我阅读了所有文件并运行了测试 我阅读了全部改动 我阅读了全部代码 我阅读了整个差异 我检查了所有文件 我审查了所有文件 我审查了全部改动 我运行了测试 我运行了所有测试 并运行了测试 有测试 如果文件不存在则使用默认值",
    open_ends: "的 和 与 并 并且 而且 也 都",
};

const JAPANESE: Pieces = Pieces {
    good: "明確 十分 正しい 正しく 適切 良い 良く よく 良好 きれい 読みやすい 読みやすく わかりやすい 分かりやすい 素晴らしい ありがとうございます 承認します 承認 網羅して 網羅されて カバーして 満たして 満たされて 従って 一致して 通ります 通りました 通過 合格 成功 修正済み 修正されて テスト済み マージできます マージ可能 問題ありません 問題なし 整理されて 簡潔 丁寧 完璧",
    plain: "コード テスト ドキュメント ファイル モジュール 変更 差分 実装 設計 構造 命名 関数 受け入れ基準 要件 基準 チケット 規約 は が を も の に で と な すべて 全て 全部 すべての 全ての です います ました とても 非常に 前回の指摘 前回 指摘 され 書かれて 処理 エラー処理 境界値 新しい この 今回の コミット 品質 全体 しています されています",
    idioms: "問題ありません 問題ありませんでした 問題なし 問題は見つかりませんでした 問題はありません 問題は見つかりません 指摘事項はありません 指摘はありません 特にありません 修正は不要です 変更は不要です すべてのファイルを読み 全てのファイルを読み すべてのファイルを読みました 全てのファイルを読みました 差分をすべて読みました テストを実行しました すべてのテストを実行しました 全てのテストを実行しました ファイルがない場合は既定値を使います",
    open_ends: "が と の な も に を は",
};

const KOREAN: Pieces = Pieces {
    good: "명확 깔끔 좋습니다 좋은 좋아 훌륭 정확 충분 통과 통과했 완벽 승인합니다 승인 감사합니다 다룹니다 충족 일치 따릅니다 읽기쉽 완전 적절 수정되었습니다 해결되었습니다 검증되었 확인되었 문제없습니다",
    plain: "테스트 코드 변경 변경사항 사항 파일 문서 구현 구조 이름 모듈 함수 기준 인수기준 요구사항 티켓 모든 모두 전부 전체 이 가 은 는 을 를 의 도 와 과 에 매우 아주 합니다 합니다. 했습니다 됩니다 되었습니다 하고 하며 잘 커밋 품질 설계 규칙 습니다 입니다 히 하게 한 지난라운드의지적",
    idioms: "문제없음 문제가없습니다 문제를찾지못했습니다 발견된문제가없습니다 문제없습니다 수정할것이없습니다 모든파일을읽고 모든파일을읽었습니다 모든파일을읽고테스트를실행했습니다 모든파일을읽고모든테스트를실행했습니다 테스트를실행했습니다 모든테스트를실행했습니다 코드가명확합니다",
    open_ends: "하고 하며 와 과 의 도",
};

/// Latin words that stand in such texts.
const SHARED: &str = "lgtm ok api ci";

/// Returns whether a text has letters of a script without blanks, or of Korean.
pub(super) fn has_letters(text: &str) -> bool {
    text.chars().any(|c| {
        matches!(c, '\u{1100}'..='\u{11ff}' | '\u{3040}'..='\u{30ff}' | '\u{3130}'..='\u{318f}'
            | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}')
    })
}

/// Returns whether one language knows every clause and each speaks for the change.
pub(super) fn is_vouched(sentence: &str) -> bool {
    let is_separator = |c: char| ",:()，、：（）。！；;!.—–-".contains(c);
    let clauses: Vec<String> = sentence
        .split(is_separator)
        .map(|clause| {
            let letters = clause.chars().filter(|c| !c.is_whitespace());
            letters.flat_map(char::to_lowercase).collect()
        })
        .filter(|clause: &String| !clause.is_empty())
        .collect();
    LANGUAGES
        .iter()
        .any(|language| clauses.iter().all(|clause| language.vouches(clause)))
}

impl Pieces {
    fn is_idiom(&self, text: &str) -> bool {
        self.idioms.split(' ').any(|idiom| idiom == text)
    }

    fn vouches(&self, clause: &str) -> bool {
        if self.is_idiom(clause) {
            return true;
        }
        let mut good = false;
        let mut last = "";
        let mut rest = clause;
        while !rest.is_empty() {
            let longest = |list: &'static str| {
                let found = list.split(' ').filter(|piece| rest.starts_with(*piece));
                found.max_by_key(|piece| piece.len())
            };
            let praise = longest(self.good)
                .or_else(|| longest(SHARED).filter(|word| matches!(*word, "lgtm" | "ok")));
            let plain = longest(self.plain)
                .or_else(|| longest(SHARED))
                .or_else(|| rest.starts_with(super::PLACE).then_some(super::PLACE_WORD));
            let piece = match (praise, plain) {
                (Some(praise), plain) if plain.is_none_or(|plain| praise.len() >= plain.len()) => {
                    good = true;
                    praise
                }
                (_, Some(plain)) => plain,
                _ => return false,
            };
            last = piece;
            rest = &rest[piece.len()..];
        }
        good && !self.open_ends.split(' ').any(|end| end == last)
    }
}
