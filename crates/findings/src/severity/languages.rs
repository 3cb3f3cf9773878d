//! The words of severity scales in languages other than English.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::Severity;
use Severity::{Critical, High, Low, Medium, Suggestion};

/// How plainly a word names a degree: an adjective of a scale, or an everyday noun as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plainness {
    Scale,
    Everyday,
}
use Plainness::{Everyday, Scale};

/// Severity of a lower-case word of another language.
pub(crate) fn foreign_severity(word: &str) -> Option<(Severity, Plainness)> {
    BY_WORD.get(word).copied()
}

static BY_WORD: LazyLock<HashMap<&str, (Severity, Plainness)>> = LazyLock::new(|| {
    let listed = WORDS.iter().flat_map(|&(severity, plainness, words)| {
        let words = words.split_ascii_whitespace();
        words.map(move |word| (word, (severity, plainness)))
    });
    listed.collect()
});

/// German, French, Spanish, Portuguese, Italian, Dutch, Polish, Czech, Russian, Ukrainian, Turkish,
/// Swedish, Danish, Norwegian, Indonesian, Vietnamese, Korean, Japanese, Chinese, Hindi, Arabic.
const WORDS: [(Severity, Plainness, &str); 9] = [
    (
        Critical,
        Scale,
        "kritisch kritische kritischer kritisches kritischen blockierend blockierende \
         critique critiques bloquant bloquante bloquants bloquantes \
         crítico crítica críticos críticas critico critica critici critiche bloqueante bloqueantes \
         bloqueador bloqueadora bloccante bloccanti \
         kritiek kritieke blokkerend krytyczny krytyczna krytyczne krytycznych kritický kritická kritické \
         критический критическая критическое критические критично критичный критичная критичные блокер \
         блокирующий блокирующая блокирующие критичний критична критичне критичні \
         kritik kritisk kritiska kritiske kritis chặn \
         치명적 치명 심각 심각한 심각함 긴급 차단 블로커 크리티컬 \
         致命 致命的 緊急 紧急 重大 深刻 严重 嚴重 阻塞 阻断 阻斷 クリティカル ブロッカー 特急 गंभीर حرج حرجة",
    ),
    (
        High,
        Scale,
        "hoch hohe hoher hohes hohen schwerwiegend schwerwiegende \
         élevé élevée élevés élevées haute hautes haut majeur majeure majeurs majeures \
         alto alta altos altas \
         hoog hoge wysoki wysoka wysokie vysoký vysoká vysoké \
         высокий высокая высокое высокие серьёзный серьёзная серьёзные серьезный серьезная серьезные \
         високий висока високе високі yüksek hög höga høj høje høy tinggi cao \
         높음 높은 高 高い 高危 高级 高度 メジャー उच्च عالي عالية مرتفع مرتفعة",
    ),
    (
        High,
        Everyday,
        "wichtig wichtige wichtiges importante importantes importanti important importants \
         grave graves gravi mayor mayores belangrijk ernstig ważny ważna ważne důležité \
         важно важный важная важные 중요 중요한 主要 重要 重要な",
    ),
    (
        Medium,
        Scale,
        "mittel mittlere mittlerer mittleres mittelschwer moyen moyenne moyens moyennes modéré modérée \
         medio media medios medias médio média médios médias moderado moderada moderato moderata \
         gemiddeld gemiddelde middel matig średni średnia średnie střední \
         средний средняя среднее средние умеренный умеренная середній середня середнє середні \
         orta medel sedang 중간 보통 中 中等 中危 中度 中程度 中级 मध्यम متوسط متوسطة",
    ),
    (
        Medium,
        Everyday,
        "warnung warnungen avertissement avertissements advertencia advertencias aviso avisos avviso avvisi \
         waarschuwing ostrzeżenie varování предупреждение предупреждения попередження uyarı varning advarsel \
         peringatan 경고 警告 一般 注意 चेतावनी تحذير",
    ),
    (
        Low,
        Scale,
        "niedrig niedrige niedriger niedriges gering geringe geringer geringfügig faible faibles mineur mineure \
         mineurs mineures bas basse bajo baja bajos bajas baixo baixa baixos baixas basso bassa bassi basse \
         leve leves lieve lievi menor menores minore minori laag lage niski niska niskie nízký nízká nízké \
         низкий низкая низкое низкие незначительный незначительная незначительные низький низька низьке низькі \
         düşük låg låga lav lave rendah thấp 낮음 낮은 경미 경미한 低 低い 低危 低级 軽微 轻微 輕微 次要 マイナー निम्न منخفض منخفضة",
    ),
    (
        Low,
        Everyday,
        "hinweis hinweise observación observaciones observação observações",
    ),
    (
        Suggestion,
        Scale,
        "suggestie sugerencia sugerencias sugestão sugestões suggerimento suggerimenti vorschlag vorschläge \
         sugestia sugestie предложение предложения пропозиція öneri förslag forslag saran",
    ),
    (
        Suggestion,
        Everyday,
        "kosmetisch kosmetische cosmétique cosmétiques cosmético cosmética estetico trivial banal мелочь мелкий мелкие рекомендация \
         рекомендации empfehlung verbesserung amélioration améliorations mejora mejoras melhoria melhorias \
         제안 개선 사소 사소한 정보 建议 建議 提案 改善 改进 改善提案 推奨 情報 信息 提示 सुझाव اقتراح",
    ),
];

/// Scales of languages that do not put spaces between words, looked for inside a text. The longer
/// and the more telling stand first.
pub(super) const UNSPACED: [(&str, Severity); 33] = [
    ("致命", Critical),
    ("严重", Critical),
    ("嚴重", Critical),
    ("阻塞", Critical),
    ("阻断", Critical),
    ("緊急", Critical),
    ("紧急", Critical),
    ("重大", Critical),
    ("深刻", Critical),
    ("クリティカル", Critical),
    ("치명", Critical),
    ("심각", Critical),
    ("긴급", Critical),
    ("軽微", Low),
    ("轻微", Low),
    ("輕微", Low),
    ("경미", Low),
    ("次要", Low),
    ("重要", High),
    ("主要", High),
    ("중요", High),
    ("높", High),
    ("高", High),
    ("警告", Medium),
    ("중간", Medium),
    ("보통", Medium),
    ("中", Medium),
    ("낮", Low),
    ("低", Low),
    ("建议", Suggestion),
    ("建議", Suggestion),
    ("提案", Suggestion),
    ("제안", Suggestion),
];

/// Words around a degree in headings of such languages that say nothing by themselves.
const UNSPACED_FILLERS: [&str; 51] = [
    "优先级",
    "優先度",
    "優先順位",
    "優先級",
    "重大度",
    "深刻度",
    "严重程度",
    "严重性",
    "嚴重性",
    "重要度",
    "緊急度",
    "重要性",
    "심각도",
    "우선순위",
    "问题",
    "問題点",
    "問題",
    "缺陷",
    "漏洞",
    "风险",
    "風險",
    "リスク",
    "レベル",
    "指摘事項",
    "指摘",
    "事項",
    "项目",
    "發現",
    "发现",
    "欠陥",
    "バグ",
    "문제점",
    "문제",
    "이슈",
    "사항",
    "결함",
    "级别",
    "級別",
    "级",
    "級",
    "度",
    "性",
    "な",
    "の",
    "的",
    "项",
    "个",
    "個",
    "件",
    "건",
    "개",
];

/// The degree that an unspaced word is once what merely counts or names findings is taken off:
/// `重大な問題` is `重大`, `高优先级问题` is `高`.
pub(crate) fn unspaced_degree(word: &str) -> Option<&str> {
    if word.is_ascii() || word.chars().count() > 16 {
        return None;
    }
    let mut rest = word.trim_matches(|c: char| c.is_ascii_digit());
    loop {
        if foreign_severity(rest).is_some() {
            return Some(rest);
        }
        let shorter = UNSPACED_FILLERS
            .iter()
            .find_map(|filler| rest.strip_suffix(filler))
            .map(|rest| rest.trim_end_matches(|c: char| c.is_ascii_digit()))
            .filter(|shorter| !shorter.is_empty())?;
        rest = shorter;
    }
}

/// Whether an unspaced word only counts or names findings: `2件`, `问题`.
pub(crate) fn is_unspaced_filler(word: &str) -> bool {
    let mut rest = word.trim_matches(|c: char| c.is_ascii_digit());
    while let Some(shorter) = UNSPACED_FILLERS
        .iter()
        .find_map(|filler| rest.strip_suffix(filler))
    {
        rest = shorter.trim_end_matches(|c: char| c.is_ascii_digit());
    }
    rest.is_empty()
}

/// Whether a severity field says that there is nothing: `clean`, `none`, `n/a`, `ok`, `なし`.
pub(crate) fn is_no_severity(value: &str) -> bool {
    let lower = value.trim().to_lowercase();
    let bare = lower.trim_matches(|c: char| {
        !(c.is_alphanumeric() || matches!(c, '✅' | '✔' | '✓' | '-' | '—' | '–'))
    });
    matches!(
        bare,
        "clean"
            | "none"
            | "n/a"
            | "na"
            | "n-a"
            | "n.a"
            | "ok"
            | "okay"
            | "pass"
            | "passed"
            | "passes"
            | "nil"
            | "nothing"
            | "no issue"
            | "no issues"
            | "no finding"
            | "no findings"
            | "no problem"
            | "no problems"
            | "none found"
            | "not applicable"
            | "all clear"
            | "clear"
            | "good"
            | "✅"
            | "✔"
            | "✓"
            | "-"
            | "—"
            | "–"
            | "无"
            | "無"
            | "没有"
            | "沒有"
            | "なし"
            | "無し"
            | "특이사항 없음"
            | "없음"
            | "해당 없음"
            | "keine"
            | "kein"
            | "ninguno"
            | "ninguna"
            | "nenhum"
            | "nenhuma"
            | "aucun"
            | "aucune"
            | "nessuno"
            | "nessuna"
            | "geen"
            | "brak"
            | "нет"
            | "немає"
            | "yok"
            | "inget"
            | "ingen"
            | "không"
    )
}
